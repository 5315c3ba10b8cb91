package ensemble

import (
	"slices"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// kind is what is known of an ensemble's tensor, and which model said so.
type kind struct {
	known    bool
	dataType inferencepb.DataType
	dims     []int64
	model    string
}

// check compares the graph with the models of its steps and returns which of these are decoupled.
func (g *Graph) check(cfg *inferencepb.ModelConfig, models Lookup) (flows []bool, _ error) {
	kinds := make([]kind, len(g.tensors))
	optional := make([]bool, len(g.tensors))
	for _, in := range cfg.GetInput() {
		n := g.inputs[in.GetName()]
		kinds[n] = kind{true, in.GetDataType(), g.whole(cfg, in.GetDims()), g.name}
		optional[n] = in.GetOptional()
	}
	for i, out := range cfg.GetOutput() {
		kinds[g.outputs[i]] = kind{true, out.GetDataType(), g.whole(cfg, out.GetDims()), g.name}
	}
	for i := range g.steps {
		s := &g.steps[i]
		part, err := models(s.model, s.version)
		if err != nil {
			return nil, status.Errorf(status.InvalidArg,
				"ensemble '%s' depends on '%s' which has no loaded version: %w", g.name, s.model, err)
		}
		if part.GetMaxBatchSize() < cfg.GetMaxBatchSize() {
			return nil, status.Errorf(status.InvalidArg,
				"ensemble %s allows maximum batch size %d, but it contains model %s which only allows "+
					"maximum batch size to be %d", g.name, cfg.GetMaxBatchSize(), s.model, part.GetMaxBatchSize())
		}
		flows = append(flows, part.GetModelTransactionPolicy().GetDecoupled())
		if err := g.checkInputs(s, part, kinds, optional); err != nil {
			return nil, err
		}
		if err := g.checkOutputs(s, part, kinds); err != nil {
			return nil, err
		}
	}
	return flows, g.checkDecoupled(flows)
}

// whole returns dims with the batch dimension that the tensor has inside the ensemble.
func (g *Graph) whole(cfg *inferencepb.ModelConfig, dims []int64) []int64 {
	if g.batching || cfg.GetMaxBatchSize() == 0 {
		return dims // both batch, or neither does
	}
	return append([]int64{-1}, dims...) // a batching model in an ensemble that does not batch
}

func (g *Graph) checkInputs(s *step, part *inferencepb.ModelConfig, kinds []kind, optional []bool) error {
	for _, l := range s.in {
		i := slices.IndexFunc(part.GetInput(), func(in *inferencepb.ModelInput) bool { return in.GetName() == l.port })
		if i < 0 {
			return status.Errorf(status.InvalidArg,
				"in ensemble %s, ensemble tensor %s is mapping to non-existing input %s in model %s",
				g.name, g.tensors[l.tensor], l.port, s.model)
		}
		in := part.GetInput()[i]
		if err := g.agree(l.tensor, kinds, kind{true, in.GetDataType(), g.whole(part, in.GetDims()),
			s.model}); err != nil {
			return err
		}
		if optional[l.tensor] && !in.GetOptional() {
			return status.Errorf(status.InvalidArg,
				"in ensemble %s, input %s may be left out, but input %s of model %s may not",
				g.name, g.tensors[l.tensor], l.port, s.model)
		}
	}
	for _, in := range part.GetInput() {
		if !in.GetOptional() && !slices.ContainsFunc(s.in, func(l link) bool { return l.port == in.GetName() }) {
			return status.Errorf(status.InvalidArg,
				"in ensemble %s, input %s in model %s is not mapped to any ensemble tensors",
				g.name, in.GetName(), s.model)
		}
	}
	return nil
}

func (g *Graph) checkOutputs(s *step, part *inferencepb.ModelConfig, kinds []kind) error {
	for _, l := range s.out {
		i := slices.IndexFunc(part.GetOutput(),
			func(out *inferencepb.ModelOutput) bool { return out.GetName() == l.port })
		if i < 0 {
			return status.Errorf(status.InvalidArg,
				"in ensemble %s, ensemble tensor %s is mapped from non-existing output %s in model %s",
				g.name, g.tensors[l.tensor], l.port, s.model)
		}
		out := part.GetOutput()[i]
		if err := g.agree(l.tensor, kinds, kind{true, out.GetDataType(), g.whole(part, out.GetDims()),
			s.model}); err != nil {
			return err
		}
	}
	return nil
}

// agree notes what a model says of a tensor, or refuses what another has said differently.
func (g *Graph) agree(n int, kinds []kind, k kind) error {
	old := kinds[n]
	if !old.known {
		kinds[n] = k
		return nil
	}
	if old.dataType != k.dataType {
		return status.Errorf(status.InvalidArg,
			"in ensemble %s, ensemble tensor %s: inconsistent data type: %s is inferred from model %s while %s is "+
				"inferred from model %s", g.name, g.tensors[n], k.dataType, k.model, old.dataType, old.model)
	}
	if !sameDims(old.dims, k.dims) {
		return status.Errorf(status.InvalidArg,
			"in ensemble %s, ensemble tensor %s: inconsistent shape: %s is inferred from model %s while %s is "+
				"inferred from model %s", g.name, g.tensors[n], tensor.FormatShape(k.dims), k.model,
			tensor.FormatShape(old.dims), old.model)
	}
	return nil
}

// sameDims reports whether two shapes can be the same; -1 stands for any size.
func sameDims(a, b []int64) bool {
	return slices.EqualFunc(a, b, func(x, y int64) bool { return x == y || x < 0 || y < 0 })
}

// checkDecoupled refuses graphs in which tensors of two decoupled models meet that do not follow each other: which
// response of the one belongs to which of the other is not said.
func (g *Graph) checkDecoupled(flows []bool) error {
	above := make([]map[int]bool, len(g.tensors)) // the decoupled steps that a tensor comes from
	for range g.steps {
		for i := range g.steps {
			s := &g.steps[i]
			from := map[int]bool{}
			for _, l := range s.in {
				for n := range above[l.tensor] {
					from[n] = true
				}
			}
			if flows[i] {
				from[i] = true
			}
			for _, l := range s.out {
				above[l.tensor] = from
			}
		}
	}
	follows := func(a, b int) bool { // the decoupled step a comes after b
		for _, l := range g.steps[a].in {
			if above[l.tensor][b] {
				return true
			}
		}
		return false
	}
	for i := range g.steps {
		for j := range i {
			if flows[i] && flows[j] && !follows(i, j) && !follows(j, i) {
				return status.Errorf(status.InvalidArg,
					"in ensemble %s, the decoupled models '%s' and '%s' run side by side; which responses belong "+
						"together is not defined: put one behind the other", g.name, g.steps[j].model, g.steps[i].model)
			}
		}
	}
	return nil
}
