package modelconfig

import (
	"fmt"

	"nereid/engine/inferencepb"
)

// ensemble checks the graph of an ensemble by itself; whether its models exist and fit is for who knows them.
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
	g := ensembleGraph{written: make(map[string]int), used: make(map[string]bool), place: make(map[string]string)}
	for i, s := range e.Step {
		c.step(i, s, &g)
	}
	c.ensembleFlow(e, &g)
}

// ensembleGraph knows the ensemble's tensors by name.
type ensembleGraph struct {
	written map[string]int    // the step that writes it
	used    map[string]bool   // some step reads it
	place   map[string]string // path of a map entry that names it
	order   []string          // names as they appear
}

func (g *ensembleGraph) see(name, path string) {
	if _, ok := g.place[name]; !ok {
		g.place[name] = path
		g.order = append(g.order, name)
	}
}

func (c *checker) step(i int, s *inferencepb.ModelEnsembling_Step, g *ensembleGraph) {
	at := fmt.Sprintf("ensemble_scheduling.step[%d]", i)
	if s.ModelName == "" {
		c.err(at+".model_name", "name a model of the repository", "step %d has no model_name", i)
	} else if s.ModelName == c.cfg.Name && c.cfg.Name != "" {
		c.err(at+".model_name", "name another model", "step %d runs the ensemble itself", i)
	}
	if s.ModelVersion < -1 || s.ModelVersion == 0 && c.o.Positions.Has(at+".model_version") {
		c.err(at+".model_version", "use -1 for the latest version", "step %d asks for version %d", i, s.ModelVersion)
	}
	if len(s.InputMap) == 0 {
		c.err(at+".input_map", "add input_map { key: \"model's input\" value: \"ensemble's tensor\" }", "step %d has no input_map", i)
	}
	if len(s.OutputMap) == 0 {
		c.err(at+".output_map", "add output_map { key: \"model's output\" value: \"ensemble's tensor\" }", "step %d has no output_map", i)
	}
	for _, k := range sortedMapKeys(s.InputMap) {
		path, name := fmt.Sprintf("%s.input_map[%q]", at, k), s.InputMap[k]
		if k == "" || name == "" {
			c.err(path, "write the model's input as key and the ensemble's tensor as value", "step %d has an input_map entry without a name", i)
			continue
		}
		g.see(name, path)
		g.used[name] = true
	}
	for _, k := range sortedMapKeys(s.OutputMap) {
		path, name := fmt.Sprintf("%s.output_map[%q]", at, k), s.OutputMap[k]
		if k == "" || name == "" {
			c.err(path, "write the model's output as key and the ensemble's tensor as value", "step %d has an output_map entry without a name", i)
			continue
		}
		g.see(name, path)
		if first, ok := g.written[name]; ok {
			c.err(path, "use another name", "tensor %q is written by step %d already", name, first)
			continue
		}
		g.written[name] = i
	}
}

// ensembleFlow checks that every tensor is written before it is read, and that nothing is left over.
func (c *checker) ensembleFlow(e *inferencepb.ModelEnsembling, g *ensembleGraph) {
	ready := make(map[string]bool)
	for i, in := range c.cfg.Input {
		path := fmt.Sprintf("input[%d].name", i)
		if !g.used[in.Name] {
			c.err(path, "put it into a step's input_map, or remove it", "input %q of the ensemble goes into no step", in.Name)
		}
		if step, ok := g.written[in.Name]; ok {
			c.err(path, "use another name for the step's output", "input %q of the ensemble is also written by step %d", in.Name, step)
		}
		ready[in.Name] = true
	}
	for range e.Step { // each round makes at least one more step ready, or nothing changes any more
		for _, s := range e.Step {
			if mapped(s.InputMap, ready) {
				for _, name := range s.OutputMap {
					ready[name] = true
				}
			}
		}
	}
	outputs := make(map[string]bool)
	for i, out := range c.cfg.Output {
		outputs[out.Name] = true
		if _, ok := g.written[out.Name]; !ok {
			c.err(fmt.Sprintf("output[%d].name", i), "put it into a step's output_map", "output %q of the ensemble is written by no step", out.Name)
		}
	}
	for _, name := range g.order {
		_, written := g.written[name]
		switch {
		case !written && !ready[name]:
			c.err(g.place[name], "make it an input of the ensemble, or the output of a step", "tensor %q is read but never written", name)
		case written && !ready[name]:
			c.err(g.place[name], "break the circle, or mend what it waits for", "tensor %q is never ready: the step that writes it waits for tensors that never come", name)
		case written && !g.used[name] && !outputs[name]:
			c.err(g.place[name], "make it an output of the ensemble, or take it out of the output_map", "tensor %q is written but not used", name)
		}
	}
}

func mapped(inputs map[string]string, ready map[string]bool) bool {
	for _, name := range inputs {
		if !ready[name] {
			return false
		}
	}
	return true
}
