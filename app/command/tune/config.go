package tunecmd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"nereid/app/tune"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// threadsParameter is the parameter for the number of threads of an execution in ONNX Runtime.
const threadsParameter = "intra_op_thread_count"

// lists are the values to try. nil: the values depend on the machine and the model; empty: only the present value.
type lists struct {
	batches, delays, instances, kinds, threads []int
	load                                       []int
	rate                                       bool // load is requests per second
	fewBatches                                 bool // see setFew
}

// setFew sets what is not given to the few values that show whether a field matters.
func (l *lists) setFew() {
	for list, few := range map[*[]int][]int{
		&l.delays: {tune.NoBatching, 0, 1000}, &l.instances: {1, 2}, &l.load: {1, 8},
	} {
		if *list == nil {
			*list = few
		}
	}
	l.fewBatches = true
}

// defaultBatches are the batch sizes to try from least to most.
func (l *lists) defaultBatches(least, most int) []int {
	list := doubling(1, 128)
	if l.fewBatches {
		list = []int{8, 32}
	}
	return slices.DeleteFunc(list, func(n int) bool { return n < least || n > most })
}

// machine is what the default values depend on, in addition to the model.
type machine struct{ cores, gpus int }

// axes are the axes of a model. Its configuration is completed and normalized. all is false for a model that is only
// measured as a composing model of another one.
func axes(cfg *inferencepb.ModelConfig, l *lists, m machine, all bool) []tune.Axis {
	var out []tune.Axis
	add := func(f tune.Field, values, defaults []int) {
		if values == nil {
			values = defaults
		}
		if len(values) > 0 {
			out = append(out, tune.NewAxis(cfg.GetName(), f, values, valueOf(cfg, f)))
		}
	}
	ensemble, batches := cfg.GetEnsembleScheduling() != nil, cfg.GetMaxBatchSize() > 0
	if batches && all {
		add(tune.MaxBatch, l.batches, doubling(1, 128))
	}
	if batches && cfg.GetSequenceBatching() == nil && !ensemble {
		add(tune.Delay, l.delays, []int{tune.NoBatching, 0, 100, 500, 1000, 5000})
	}
	if ensemble {
		return out
	}
	add(tune.Instances, l.instances, upTo(min(max(m.cores, 4), 8)))
	if m.gpus > 0 && valueOf(cfg, tune.Kind) >= 0 {
		add(tune.Kind, l.kinds, []int{tune.KindCPU, tune.KindGPU})
	}
	if cfg.GetBackend() == modelconfig.BackendONNXRuntime {
		add(tune.Threads, l.threads, append(doubling(1, max(1, m.cores/2)), 0))
	}
	return out
}

// valueOf is the value of a field in a completed configuration. The kind is -1 if there are instances of several.
func valueOf(cfg *inferencepb.ModelConfig, f tune.Field) int {
	kind, count := presentInstances(cfg)
	switch f {
	case tune.MaxBatch:
		return int(cfg.GetMaxBatchSize())
	case tune.Delay:
		if cfg.GetDynamicBatching() == nil {
			return tune.NoBatching
		}
		return int(cfg.GetDynamicBatching().GetMaxQueueDelayMicroseconds())
	case tune.Instances:
		return count
	case tune.Kind:
		return kind
	}
	threads, _ := strconv.Atoi(cfg.GetParameters()[threadsParameter].GetStringValue()) // none: 0, all cores
	return threads
}

// presentInstances is the kind of a configuration's instances and their number. The kind is -1 if there are several.
func presentInstances(cfg *inferencepb.ModelConfig) (kind, count int) {
	kind = -1
	for i, g := range cfg.GetInstanceGroup() {
		k := tune.KindCPU
		if g.GetKind() == inferencepb.ModelInstanceGroup_KIND_GPU {
			k = tune.KindGPU
		}
		if count += int(g.GetCount()); i == 0 {
			kind = k
		} else if k != kind {
			kind = -1
		}
	}
	return kind, max(1, count)
}

// doubling is low, twice low, and so on up to high.
func doubling(low, high int) (out []int) {
	for ; low <= high; low *= 2 {
		out = append(out, low)
	}
	return out
}

func upTo(n int) (out []int) {
	for i := 1; i <= n; i++ {
		out = append(out, i)
	}
	return out
}

// configText is a model's configuration text with changes. present is the configuration that the server completed.
func configText(text string, present *inferencepb.ModelConfig, changes []tune.Change) (string, error) {
	if len(changes) == 0 {
		return text, nil
	}
	cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(text))
	if err := faults.Err(); err != nil {
		return "", err
	}
	fields := map[string]bool{}
	for _, c := range changes {
		switch c.Field {
		case tune.MaxBatch:
			cfg.MaxBatchSize = int32(c.To)
			fields["max_batch_size"] = true
		case tune.Delay:
			setDelay(cfg, present, c.To)
			fields["dynamic_batching"] = true
		case tune.Instances, tune.Kind:
			fields["instance_group"] = true
		case tune.Threads:
			cfg.Parameters = maps.Clone(cfg.GetParameters())
			if cfg.Parameters == nil {
				cfg.Parameters = map[string]*inferencepb.ModelParameter{}
			}
			cfg.Parameters[threadsParameter] = &inferencepb.ModelParameter{StringValue: strconv.Itoa(c.To)}
			if c.To == 0 {
				delete(cfg.Parameters, threadsParameter)
			}
			fields["parameters"] = true
		}
	}
	if fields["instance_group"] {
		cfg.InstanceGroup = instanceGroups(cfg, present, changes)
	}
	if fields["max_batch_size"] && trimPreferred(cfg) {
		fields["dynamic_batching"] = true
	}
	return modelconfig.Replace(text, cfg, slices.Sorted(maps.Keys(fields))...)
}

// setDelay turns dynamic batching off, or on with a delay. It keeps its other fields.
func setDelay(cfg, present *inferencepb.ModelConfig, delay int) {
	if delay == tune.NoBatching {
		cfg.SchedulingChoice = nil
		return
	}
	d := cfg.GetDynamicBatching()
	if d == nil {
		d = present.GetDynamicBatching() // which the server completed
	}
	next := &inferencepb.ModelDynamicBatching{}
	if d != nil {
		next = proto.CloneOf(d)
	}
	next.MaxQueueDelayMicroseconds = uint64(delay)
	cfg.SchedulingChoice = &inferencepb.ModelConfig_DynamicBatching{DynamicBatching: next}
}

// trimPreferred removes preferred batch sizes that are too large now. It reports whether there were any.
func trimPreferred(cfg *inferencepb.ModelConfig) bool {
	d := cfg.GetDynamicBatching()
	if d == nil {
		return false
	}
	fit := slices.DeleteFunc(slices.Clone(d.PreferredBatchSize), func(n int32) bool { return n > cfg.MaxBatchSize })
	if len(fit) == len(d.PreferredBatchSize) {
		return false
	}
	d = proto.CloneOf(d)
	d.PreferredBatchSize = fit
	cfg.SchedulingChoice = &inferencepb.ModelConfig_DynamicBatching{DynamicBatching: d}
	return true
}

// instanceGroups are the instance groups after changes. A single group keeps its other fields; several become one.
func instanceGroups(cfg, present *inferencepb.ModelConfig, changes []tune.Change) []*inferencepb.ModelInstanceGroup {
	kind, count := presentInstances(present)
	newKind := false
	for _, c := range changes {
		switch c.Field {
		case tune.Instances:
			count = c.To
		case tune.Kind:
			kind, newKind = c.To, true
		}
	}
	g := &inferencepb.ModelInstanceGroup{}
	if len(cfg.GetInstanceGroup()) == 1 {
		g = proto.CloneOf(cfg.GetInstanceGroup()[0])
	}
	g.Count = int32(count)
	if newKind || g.Kind == inferencepb.ModelInstanceGroup_KIND_AUTO && kind == tune.KindCPU {
		g.Kind, g.Gpus = inferencepb.ModelInstanceGroup_KIND_CPU, nil
		if kind == tune.KindGPU {
			g.Kind = inferencepb.ModelInstanceGroup_KIND_GPU
		}
	}
	return []*inferencepb.ModelInstanceGroup{g}
}

// mismatch says how the configuration that a server uses differs from the changes; "" if it does not.
func mismatch(got *inferencepb.ModelConfig, changes []tune.Change) string {
	for _, c := range changes {
		if is := valueOf(got, c.Field); is != c.To {
			return fmt.Sprintf("%s is to be %d, but the server completes the configuration with %d", c.Field, c.To, is)
		}
	}
	return ""
}

// changeText describes a change in the configuration's words.
func changeText(c tune.Change) string {
	word := func(v int) string {
		switch {
		case c.Field == tune.Delay && v == tune.NoBatching:
			return "no dynamic batching"
		case c.Field == tune.Delay:
			return fmt.Sprintf("dynamic batching, %d µs", v)
		case c.Field == tune.Kind && v == tune.KindGPU:
			return "KIND_GPU"
		case c.Field == tune.Kind:
			return "KIND_CPU"
		case c.Field == tune.Threads && v == 0:
			return "all cores"
		}
		return strconv.Itoa(v)
	}
	names := map[tune.Field]string{
		tune.MaxBatch: "max_batch_size ", tune.Instances: "instances ", tune.Kind: "kind ", tune.Threads: "threads ",
	}
	return names[c.Field] + word(c.From) + " → " + word(c.To)
}
