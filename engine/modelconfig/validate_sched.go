package modelconfig

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"nereid/engine/inferencepb"
)

// scheduling checks the scheduler that is set, and what excludes it.
func (c *checker) scheduling() {
	cfg := c.cfg
	decoupled, cached := cfg.GetModelTransactionPolicy().GetDecoupled(), cfg.GetResponseCache().GetEnable()
	if decoupled && cached {
		c.err("response_cache", "",
			"Response Cache does not currently support model %s with 'decoupled' transaction policy. "+
				"Please disable the response cache.", cfg.Name)
	}
	if d := cfg.GetDynamicBatching(); d != nil {
		c.dynamic(d)
		if decoupled && d.PreserveOrdering {
			c.err("dynamic_batching.preserve_ordering", "remove it",
				"a decoupled model sends responses when it likes, so preserve_ordering cannot hold")
		}
	}
	if s := cfg.GetSequenceBatching(); s != nil {
		if cached {
			c.err("response_cache", "turn the cache off",
				"the response cache cannot serve a model with sequence_batching: its answers depend on the sequence")
		}
		c.sequence(s)
	}
	if e := cfg.GetEnsembleScheduling(); e != nil {
		c.ensemble(e)
	}
}

func (c *checker) preferred(sizes []int32, at string) {
	for i, n := range sizes {
		elem := indexed(at, i)
		switch {
		case n <= 0:
			c.err(elem, "use a size from 1 to max_batch_size", "preferred batch size %d is not positive", n)
		case n > c.cfg.MaxBatchSize && c.cfg.MaxBatchSize >= 0:
			c.err(elem, "lower it, or raise max_batch_size",
				"preferred batch size %d is above max_batch_size %d", n, c.cfg.MaxBatchSize)
		case slices.Contains(sizes[:i], n):
			c.warn(elem, "remove one", "preferred batch size %d is listed twice", n)
		}
	}
}

func (c *checker) dynamic(d *inferencepb.ModelDynamicBatching) {
	const at = "dynamic_batching"
	if c.cfg.MaxBatchSize == 0 && len(d.PreferredBatchSize) == 0 {
		c.warn(at, "set max_batch_size", "dynamic_batching forms no batches while max_batch_size is 0")
	}
	c.preferred(d.PreferredBatchSize, at+".preferred_batch_size")
	levels := d.PriorityLevels
	if levels > maxPriorityLevels {
		c.err(at+".priority_levels", fmt.Sprintf("use at most %d", maxPriorityLevels),
			"there are %d priority levels", levels)
	}
	if levels > 0 && (d.DefaultPriorityLevel == 0 || d.DefaultPriorityLevel > levels) {
		c.err(at+".default_priority_level", fmt.Sprintf("use a level from 1 to %d", levels),
			"default_priority_level %d is not one of the %d priority levels", d.DefaultPriorityLevel, levels)
	}
	if levels == 0 && d.DefaultPriorityLevel > 0 {
		c.warn(at+".default_priority_level", "set priority_levels",
			"default_priority_level does nothing while priority_levels is 0")
	}
	if d.PreserveOrdering && levels > 1 {
		c.err(at+".preserve_ordering", "use one priority level, or give up the order",
			"preserve_ordering cannot hold with %d priority levels", levels)
	}
	c.queue(d.DefaultQueuePolicy, at+".default_queue_policy", d.PreserveOrdering)
	for _, level := range slices.Sorted(maps.Keys(d.PriorityQueuePolicy)) {
		elem := fmt.Sprintf("%s.priority_queue_policy[\"%d\"]", at, level)
		if levels == 0 {
			c.warn(elem, "set priority_levels", "priority_queue_policy does nothing while priority_levels is 0")
		} else if level == 0 || level > levels {
			c.err(elem, fmt.Sprintf("use a level from 1 to priority_levels, which is %d", levels),
				"priority_queue_policy has level %d", level)
		}
		c.queue(d.PriorityQueuePolicy[level], elem, d.PreserveOrdering)
	}
}

func (c *checker) queue(q *inferencepb.ModelQueuePolicy, at string, ordered bool) {
	if q == nil {
		return
	}
	if ordered && q.DefaultTimeoutMicroseconds > 0 && q.TimeoutAction == inferencepb.ModelQueuePolicy_DELAY {
		c.err(at+".timeout_action", "use REJECT, or give up the order",
			"timeout_action DELAY moves requests back, so preserve_ordering cannot hold")
	}
	if q.AllowTimeoutOverride && q.DefaultTimeoutMicroseconds == 0 {
		c.warn(at+".allow_timeout_override", "set default_timeout_microseconds",
			"allow_timeout_override does nothing without default_timeout_microseconds: "+
				"a request may lower the timeout, never raise it")
	}
}

func (c *checker) sequence(s *inferencepb.ModelSequenceBatching) {
	const at = "sequence_batching"
	c.controls(s.ControlInput, at+".control_input")
	if o := s.GetOldest(); o != nil {
		if o.MaxCandidateSequences < 0 {
			c.err(at+".oldest.max_candidate_sequences", "use a positive number",
				"max_candidate_sequences is %d", o.MaxCandidateSequences)
		} else if o.MaxCandidateSequences == 0 {
			c.warn(at+".oldest.max_candidate_sequences", "set it to the number of sequences that may run at once",
				"max_candidate_sequences is not set")
		}
		c.preferred(o.PreferredBatchSize, at+".oldest.preferred_batch_size")
	}
	if d := s.GetDirect(); d != nil {
		switch {
		case !(d.MinimumSlotUtilization >= 0 && d.MinimumSlotUtilization <= 1):
			c.err(at+".direct.minimum_slot_utilization", "use a number from 0 to 1",
				"minimum_slot_utilization is %v", d.MinimumSlotUtilization)
		case d.MaxQueueDelayMicroseconds > 0 && d.MinimumSlotUtilization == 0:
			c.warn(at+".direct.max_queue_delay_microseconds", "set minimum_slot_utilization",
				"max_queue_delay_microseconds does nothing while minimum_slot_utilization is 0")
		}
	}
	for _, in := range c.internalInputs() {
		if i := inputIndex(c.cfg, in.name); i >= 0 && in.name != "" && in.what != "batch input" {
			c.warn(indexed("input", i)+".name", "remove it from the inputs: what a client sends does not count",
				"input %q is a %s too", in.name, in.what)
		}
	}
	c.states(s.State, at+".state")
}

// controls checks the control inputs: each kind once, each with values of one type.
func (c *checker) controls(list []*inferencepb.ModelSequenceBatching_ControlInput, at string) {
	names := make(map[string]bool)
	kinds := make(map[inferencepb.ModelSequenceBatching_Control_Kind]bool)
	for i, in := range list {
		elem := indexed(at, i)
		switch {
		case in.Name == "":
			c.err(elem+".name", "name the model's input that gets it", "%s has no name", elem)
		case names[in.Name]:
			c.err(elem+".name", "put both controls under one name, or use another name",
				"control input %q is listed twice", in.Name)
		}
		names[in.Name] = true
		if len(in.Control) == 0 {
			c.err(elem, "add control { kind: … }", "control input %q has no control", in.Name)
		}
		for j, ctl := range in.Control {
			ctlAt := indexed(elem+".control", j)
			if kinds[ctl.Kind] {
				c.err(ctlAt+".kind", "remove one", "there are two controls of kind %s", ctl.Kind)
			}
			kinds[ctl.Kind] = true
			c.control(ctl, ctlAt)
		}
	}
}

func (c *checker) control(ctl *inferencepb.ModelSequenceBatching_Control, at string) {
	given, count := 0, 0
	for _, n := range []int{len(ctl.Int32FalseTrue), len(ctl.Fp32FalseTrue), len(ctl.BoolFalseTrue)} {
		if n > 0 {
			given, count = given+1, n
		}
	}
	if ctl.Kind == inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID {
		switch ctl.DataType {
		case inferencepb.DataType_TYPE_UINT64, inferencepb.DataType_TYPE_INT64, inferencepb.DataType_TYPE_UINT32,
			inferencepb.DataType_TYPE_INT32, inferencepb.DataType_TYPE_STRING:
		default:
			c.err(at+".data_type", "use TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 or TYPE_STRING",
				"%s has data_type %s", ctl.Kind, ctl.DataType)
		}
		if given > 0 {
			c.err(at, "remove them", "%s takes no false and true values", ctl.Kind)
		}
		return
	}
	switch {
	case given != 1:
		c.err(at,
			"give one of int32_false_true, fp32_false_true and bool_false_true, such as fp32_false_true: [ 0, 1 ]",
			"%s has %d of the lists of a false and a true value, want 1", ctl.Kind, given)
	case count != 2:
		c.err(at, "give the false value and the true value, such as [ 0, 1 ]",
			"%s has %d values, want 2", ctl.Kind, count)
	}
}

// states checks implicit states.
func (c *checker) states(list []*inferencepb.ModelSequenceBatching_State, at string) {
	names := make(map[string]bool)
	for i, s := range list {
		elem := indexed(at, i)
		for _, n := range []struct{ field, name string }{{"input_name", s.InputName}, {"output_name", s.OutputName}} {
			if n.name == "" {
				c.err(elem+"."+n.field, "name the model's tensor", "%s has no %s", elem, n.field)
			} else if names[n.field+n.name] {
				c.err(elem+"."+n.field, "remove one", "two states have the %s %q", n.field, n.name)
			}
			names[n.field+n.name] = true
		}
		if s.DataType == inferencepb.DataType_TYPE_INVALID {
			c.err(elem+".data_type", "add a line such as data_type: TYPE_FP32",
				"state %q has no data_type", s.InputName)
		}
		if len(s.Dims) == 0 {
			c.err(elem+".dims", "add dims", "state %q has no dims", s.InputName)
		}
		c.dims(s.Dims, elem+".dims", "state", s.InputName)
		if s.UseGrowableMemory && !s.UseSameBufferForInputOutput {
			c.err(elem+".use_growable_memory", "set use_same_buffer_for_input_output too",
				"use_growable_memory needs use_same_buffer_for_input_output")
		}
		if len(s.InitialState) > 1 {
			c.err(elem+".initial_state", "keep one", "state %q has %d initial states", s.InputName, len(s.InitialState))
		}
		for j, init := range s.InitialState {
			c.initialState(s, init, indexed(elem+".initial_state", j))
		}
	}
}

func (c *checker) initialState(s *inferencepb.ModelSequenceBatching_State,
	init *inferencepb.ModelSequenceBatching_InitialState, at string) {
	if init.Name == "" {
		c.err(at+".name", "add a name, which can be any",
			"Field 'name' must be set when using initial_state for state input '%s'.", s.InputName)
	}
	if init.DataType != s.DataType {
		c.err(at+".data_type", "use the state's data_type",
			"the initial state has data_type %s, its state %s", init.DataType, s.DataType)
	}
	if len(init.Dims) != len(s.Dims) {
		c.err(at+".dims", "use as many dims as the state",
			"the initial state has %d dims, its state %d", len(init.Dims), len(s.Dims))
	}
	for k, d := range init.Dims {
		elem := indexed(at+".dims", k)
		if d < 1 {
			c.err(elem, "use 1 or more: the initial value has a fixed shape", "the initial state has dimension %d", d)
		} else if len(init.Dims) == len(s.Dims) && s.Dims[k] >= 0 && s.Dims[k] != d {
			c.err(elem, "use the state's dims, with a size for each -1",
				"'initial_state' dim for input name '%s' doesn't match 'state' dim description. %d != %d",
				s.InputName, d, s.Dims[k])
		}
	}
	switch init.StateData.(type) {
	case nil:
		c.err(at, "add zero_data: true or data_file", "the initial state has no data")
	case *inferencepb.ModelSequenceBatching_InitialState_DataFile:
		c.file(at+".data_file", "initial state file", path.Join("initial_state", init.GetDataFile()))
	}
}
