package modelconfig

import (
	"fmt"

	"nereid/engine/inferencepb"
)

// ensemble checks the graph of an ensemble. It does not check whether the models of the steps exist and fit.
func (c *checker) ensemble(e *inferencepb.ModelEnsembling) {
	cfg := c.cfg
	if len(cfg.InstanceGroup) > 0 {
		c.err("instance_group", "remove it; the models of the steps have their own", "an ensemble has no instances")
	}
	if cfg.Optimization != nil {
		c.err("optimization", "remove it", "an ensemble has nothing to optimise by itself")
	}
	if len(cfg.ModelWarmup) > 0 {
		c.err("model_warmup", "warm up the models of the steps", "an ensemble cannot be warmed up")
	}
	if len(e.Step) == 0 {
		c.err("ensemble_scheduling", "add step [ { model_name: … } ]", "the ensemble has no step")
		return
	}
	graph := ensembleChecker{checker: c, written: make(map[string]int), used: make(map[string]bool),
		path: make(map[string]string)}
	for i, s := range e.Step {
		graph.step(i, s)
	}
	graph.flow(e)
}

// ensembleChecker checks the steps of an ensemble. It describes the ensemble's tensors by name.
type ensembleChecker struct {
	*checker
	written map[string]int    // the step that writes it
	used    map[string]bool   // a step reads it
	path    map[string]string // path of the first map entry that names it
	order   []string          // names in order of their first use
}

func (g *ensembleChecker) addTensor(name, path string) {
	if _, ok := g.path[name]; !ok {
		g.path[name] = path
		g.order = append(g.order, name)
	}
}

func (g *ensembleChecker) step(i int, s *inferencepb.ModelEnsembling_Step) {
	at := indexed("ensemble_scheduling.step", i)
	if s.ModelName == "" {
		g.err(at+".model_name", "name a model of the repository", "step %d has no model_name", i)
	} else if s.ModelName == g.cfg.Name {
		g.err(at+".model_name", "name another model", "step %d runs the ensemble itself", i)
	}
	if s.ModelVersion < -1 || s.ModelVersion == 0 && g.o.Positions.Has(at+".model_version") {
		g.err(at+".model_version", "use -1 for the latest version", "step %d asks for version %d", i, s.ModelVersion)
	}
	g.stepMap(i, at, "input", s.InputMap, func(name, path string) {
		g.addTensor(name, path)
		g.used[name] = true
	})
	g.stepMap(i, at, "output", s.OutputMap, func(name, path string) {
		g.addTensor(name, path)
		if first, ok := g.written[name]; ok {
			g.err(path, "use another name", "tensor %q is written by step %d already", name, first)
			return
		}
		g.written[name] = i
	})
}

// stepMap checks the input_map or output_map of step i and calls each for the ensemble's tensors in it. kind is
// "input" or "output".
func (g *ensembleChecker) stepMap(i int, at, kind string, m map[string]string, each func(name, path string)) {
	field := kind + "_map"
	if len(m) == 0 {
		g.err(at+"."+field, fmt.Sprintf("add %s { key: \"model's %s\" value: \"ensemble's tensor\" }", field, kind),
			"step %d has no %s", i, field)
	}
	for _, k := range sortedMapKeys(m) {
		path := keyed(at+"."+field, k)
		if k == "" || m[k] == "" {
			g.err(path, "write the model's "+kind+" as key and the ensemble's tensor as value",
				"step %d has an %s entry without a name", i, field)
			continue
		}
		each(m[k], path)
	}
}

// flow checks that every tensor is written before it is read, and that every tensor is used.
func (g *ensembleChecker) flow(e *inferencepb.ModelEnsembling) {
	ready := make(map[string]bool)
	for i, in := range g.cfg.Input {
		path := indexed("input", i) + ".name"
		if !g.used[in.Name] {
			g.err(path, "put it into a step's input_map, or remove it",
				"input %q of the ensemble goes into no step", in.Name)
		}
		if step, ok := g.written[in.Name]; ok {
			g.err(path, "use another name for the step's output",
				"input %q of the ensemble is also written by step %d", in.Name, step)
		}
		ready[in.Name] = true
	}
	for range e.Step { // each round makes at least one more step ready, or changes nothing
		for _, s := range e.Step {
			if allReady(s.InputMap, ready) {
				for _, name := range s.OutputMap {
					ready[name] = true
				}
			}
		}
	}
	outputs := make(map[string]bool)
	for i, out := range g.cfg.Output {
		outputs[out.Name] = true
		if _, ok := g.written[out.Name]; !ok {
			g.err(indexed("output", i)+".name", "put it into a step's output_map",
				"output %q of the ensemble is written by no step", out.Name)
		}
	}
	for _, name := range g.order {
		_, written := g.written[name]
		switch {
		case !written && !ready[name]:
			g.err(g.path[name], "make it an input of the ensemble, or the output of a step",
				"tensor %q is read but never written", name)
		case written && !ready[name]:
			g.err(g.path[name], "break the cycle, or add the tensors that the step needs",
				"tensor %q is never ready: the step that writes it waits for tensors that never come", name)
		case written && !g.used[name] && !outputs[name]:
			g.err(g.path[name], "make it an output of the ensemble, or take it out of the output_map",
				"tensor %q is written but not used", name)
		}
	}
}

func allReady(inputs map[string]string, ready map[string]bool) bool {
	for _, name := range inputs {
		if !ready[name] {
			return false
		}
	}
	return true
}
