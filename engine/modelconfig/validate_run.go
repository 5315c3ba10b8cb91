package modelconfig

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/inferencepb"
)

// instances checks the instance groups.
func (c *checker) instances() {
	if c.cfg.GetEnsembleScheduling() != nil {
		return
	}
	names := make(map[string]bool)
	global := make(map[string]bool) // by rate limiter resource
	for i, g := range c.cfg.InstanceGroup {
		at := indexed("instance_group", i)
		if names[g.Name] && g.Name != "" {
			c.warn(at+".name", "use another name, or leave it out", "two instance groups have the name %q", g.Name)
		}
		names[g.Name] = true
		switch {
		case g.Count > maxInstances:
			c.err(at+".count", fmt.Sprintf("use at most %d; as many as there are cores is plenty", maxInstances),
				"instance group %d has count %d", i, g.Count)
		case c.o.Cores > 0 && !onGPUs(g, len(c.o.GPUs)) && int(g.Count) > manyInstances*c.o.Cores:
			c.warn(at+".count", "as many as there are cores is plenty",
				"instance group %d has %d instances for %d cores; each takes memory, and few run at a time",
				i, g.Count, c.o.Cores)
		case g.Count < 1 && c.o.Positions.Has(at+".count"):
			c.warn(at+".count", "use 1 or more, or leave it out",
				"instance group %d has count %d, which means the default count", i, g.Count)
		}
		c.devices(g, i, at)
		c.limiter(g.RateLimiter, at+".rate_limiter", global)
	}
}

// onGPUs reports whether the instances of a group run on GPUs.
func onGPUs(g *inferencepb.ModelInstanceGroup, gpus int) bool {
	return g.Kind == inferencepb.ModelInstanceGroup_KIND_GPU ||
		g.Kind == inferencepb.ModelInstanceGroup_KIND_AUTO && gpus > 0
}

// devices checks kind, GPUs and profiles of a group.
func (c *checker) devices(g *inferencepb.ModelInstanceGroup, i int, at string) {
	switch g.Kind {
	case inferencepb.ModelInstanceGroup_KIND_CPU, inferencepb.ModelInstanceGroup_KIND_MODEL:
		if len(g.Gpus) > 0 {
			c.err(at+".gpus", "remove gpus, or use KIND_GPU",
				"instance group %d has kind %s but lists GPUs", i, g.Kind)
		}
	case inferencepb.ModelInstanceGroup_KIND_GPU:
		c.gpus(g, i, at)
	}
	for j, id := range g.Gpus {
		elem := indexed(at+".gpus", j)
		if id < 0 {
			c.err(elem, "GPUs are numbered from 0", "instance group %d lists GPU %d", i, id)
		} else if slices.Contains(g.Gpus[:j], id) {
			c.err(elem, "remove one, or raise the count, which is per GPU",
				"instance group %d lists GPU %d twice", i, id)
		}
	}
	for j, p := range g.Profile {
		elem := indexed(at+".profile", j)
		if !c.isTensorRT() {
			c.err(elem, "remove it", "instance group %d has a profile, which only TensorRT has", i)
		} else if _, err := strconv.ParseUint(p, 10, 31); err != nil {
			c.err(elem, "write the profile's number, such as \"0\"", "profile %q is no whole number", p)
		}
	}
}

// gpus checks that the GPUs of a group are available.
func (c *checker) gpus(g *inferencepb.ModelInstanceGroup, i int, at string) {
	name := cmp.Or(g.Name, fmt.Sprintf("%s_%d", c.cfg.Name, i)) // the default name
	fix := "name one of these, or leave gpus out to use them all"
	if len(c.o.GPUs) == 0 {
		fix = "use KIND_CPU, or leave the kind out to take what there is"
		if len(g.Gpus) == 0 {
			c.err(at+".kind", fix, "instance group %s of model %s has kind KIND_GPU but no GPUs are available", name,
				c.cfg.Name)
		}
	}
	available := strings.Trim(strings.ReplaceAll(fmt.Sprint(c.o.GPUs), " ", ", "), "[]")
	for j, id := range g.Gpus {
		if !slices.Contains(c.o.GPUs, id) {
			c.err(indexed(at+".gpus", j), fix,
				"instance group %s of model %s specifies invalid or unsupported gpu id %d. "+
					"GPUs with at least the minimum required CUDA compute compatibility of %f are: %s",
				name, c.cfg.Name, id, c.o.MinCapability, available)
		}
	}
}

// limiter checks the rate limiter resources of a group. global holds those of the groups before.
func (c *checker) limiter(l *inferencepb.ModelRateLimiter, at string, global map[string]bool) {
	names := make(map[string]bool)
	for j, r := range l.GetResources() {
		elem := indexed(at+".resources", j)
		switch {
		case r.Name == "":
			c.err(elem+".name", "name the resource", "a rate limiter resource has no name")
			continue
		case names[r.Name]:
			c.err(elem+".name", "add up the counts in one entry", "rate limiter resource %q is listed twice", r.Name)
		}
		names[r.Name] = true
		if r.Count == 0 {
			c.warn(elem, "set its count", "rate limiter resource %q has count 0, which limits nothing", r.Name)
		}
		if g, ok := global[r.Name]; ok && g != r.Global {
			c.err(elem, "make it global in every group, or in none",
				"rate limiter resource %q is global in one group and not in another", r.Name)
		}
		global[r.Name] = r.Global
	}
}

// optimization checks execution accelerators and CUDA graphs.
func (c *checker) optimization() {
	if c.cfg.GetEnsembleScheduling() != nil {
		return
	}
	o := c.cfg.GetOptimization()
	accelerators := o.GetExecutionAccelerators()
	c.accelerators("gpu_execution_accelerator", accelerators.GetGpuExecutionAccelerator())
	c.accelerators("cpu_execution_accelerator", accelerators.GetCpuExecutionAccelerator())
	for i, g := range o.GetCuda().GetGraphSpec() {
		if n := g.BatchSize; n < 0 || n > max(c.cfg.MaxBatchSize, 0) {
			c.err(indexed("optimization.cuda.graph_spec", i)+".batch_size",
				"use a size from 1 to max_batch_size, 0 without batching",
				"a CUDA graph has batch_size %d, max_batch_size is %d", n, c.cfg.MaxBatchSize)
		}
	}
}

type accelerator = inferencepb.ModelOptimizationPolicy_ExecutionAccelerators_Accelerator

func (c *checker) accelerators(field string, list []*accelerator) {
	for i, a := range list {
		if a.Name == "" {
			c.err(indexed("optimization.execution_accelerators."+field, i)+".name",
				"name it, such as \"tensorrt\" or \"openvino\"", "an execution accelerator has no name")
		}
	}
}

// warmup checks the warmup samples against the inputs.
func (c *checker) warmup() {
	for i, w := range c.cfg.ModelWarmup {
		at := indexed("model_warmup", i)
		if w.Name == "" {
			c.warn(at, "add a name; the log shows it", "warmup sample %d has no name", i)
		}
		switch {
		case w.BatchSize == 0:
			c.warn(at, "set batch_size: 1", "warmup sample %d has no batch_size; 1 is taken", i)
		case w.BatchSize > 1 && c.cfg.MaxBatchSize == 0:
			c.err(at+".batch_size", "use 1",
				"warmup sample %d has batch_size %d, but the model has no batching", i, w.BatchSize)
		case int64(w.BatchSize) > int64(max(c.cfg.MaxBatchSize, 1)):
			c.err(at+".batch_size", fmt.Sprintf("use at most %d", c.cfg.MaxBatchSize),
				"warmup sample %d has batch_size %d, above max_batch_size", i, w.BatchSize)
		}
		for _, in := range c.cfg.Input {
			if _, ok := w.Inputs[in.Name]; !ok && !in.Optional && in.Name != "" {
				c.err(at, fmt.Sprintf("add inputs { key: %q value { … } }", in.Name),
					"warmup sample %d lacks input %q", i, in.Name)
			}
		}
		for _, name := range sortedMapKeys(w.Inputs) {
			c.warmupInput(name, w.Inputs[name], keyed(at+".inputs", name))
		}
	}
}

func (c *checker) warmupInput(name string, in *inferencepb.ModelWarmup_Input, at string) {
	var want *inferencepb.ModelInput
	if k := inputIndex(c.cfg, name); k >= 0 {
		want = c.cfg.Input[k]
	} else if !slices.ContainsFunc(c.internalInputs(), func(x internalInput) bool { return x.name == name }) {
		c.err(at, "use the name of an input", "the model has no input %q to warm up", name)
	}
	if in.DataType == inferencepb.DataType_TYPE_INVALID {
		c.err(at+".data_type", "add the input's data_type", "warmup input %q has no data_type", name)
	} else if want != nil && in.DataType != want.DataType && want.DataType != inferencepb.DataType_TYPE_INVALID {
		c.err(at+".data_type", "write data_type: "+want.DataType.String(),
			"warmup input %q has data_type %s, the input has %s", name, in.DataType, want.DataType)
	}
	fixed := true
	for j, d := range in.Dims {
		if d < 1 {
			c.err(indexed(at+".dims", j), "give a size: a warmup request has a fixed shape",
				"warmup input %q has dimension %d", name, d)
			fixed = false
		}
	}
	if want != nil && fixed && len(want.Dims) > 0 && !fits(in.Dims, want.Dims, false) {
		c.err(at+".dims", "use the input's dims with sizes for -1",
			"warmup input %q has dims %v, the input has %v", name, in.Dims, want.Dims)
	}
	if _, ok := elements(in.Dims); !ok {
		c.err(at+".dims", "", "warmup input %q is larger than memory can be", name)
	}
	switch in.InputDataType.(type) {
	case nil:
		c.err(at, "add zero_data: true, random_data: true or input_data_file", "warmup input %q has no data", name)
	case *inferencepb.ModelWarmup_Input_InputDataFile:
		c.file(at+".input_data_file", "warmup file", path.Join("warmup", in.GetInputDataFile()))
	}
}

// extras checks parameters, tags, metrics, agents and operations.
func (c *checker) extras() {
	cfg := c.cfg
	if _, ok := cfg.Parameters[""]; ok {
		c.warn(`parameters[""]`, "write key: …", "a parameter has an empty key")
	}
	for _, k := range sortedMapKeys(cfg.MetricTags) {
		if !labelName("_" + k) { // the metrics have tags with this prefix, as Triton's
			c.err(keyed("metric_tags", k), "use letters, digits and '_'",
				"metric tag %q is no label name of Prometheus", k)
		}
	}
	for i, m := range cfg.GetModelMetrics().GetMetricControl() {
		c.metric(m, indexed("model_metrics.metric_control", i))
	}
	for i, a := range cfg.GetModelRepositoryAgents().GetAgents() {
		if a.Name == "" {
			c.err(indexed("model_repository_agents.agents", i), "name the agent", "a repository agent has no name")
		}
	}
	for i, f := range cfg.GetModelOperations().GetOpLibraryFilename() {
		if f == "" {
			c.err(indexed("model_operations.op_library_filename", i), "name the library",
				"a custom operation library has no name")
		}
	}
}

func (c *checker) metric(m *inferencepb.ModelMetrics_MetricControl, at string) {
	if m.GetMetricIdentifier().GetFamily() == "" {
		c.err(at+".metric_identifier", "add metric_identifier { family: … }", "%s names no metric family", at)
	}
	if m.GetHistogramOptions() == nil {
		c.err(at, "add histogram_options { buckets: [ … ] }", "%s has no options", at)
		return
	}
	b := m.GetHistogramOptions().Buckets
	if len(b) == 0 {
		c.err(at+".histogram_options", "list the upper bounds of the buckets", "%s has no buckets", at)
	}
	for i, v := range b {
		if math.IsNaN(v) || i > 0 && v <= b[i-1] {
			c.err(indexed(at+".histogram_options.buckets", i), "list the bounds in ascending order",
				"bucket bound %v is not above the one before it", v)
		}
	}
}

// labelName reports whether s is a label name of Prometheus.
func labelName(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isDigit(s[i])) {
			return false
		}
	}
	return s != ""
}
