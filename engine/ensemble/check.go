package ensemble

import (
	"maps"
	"slices"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// signature is the type and shape of an ensemble's tensor, and the model whose configuration states it.
type signature struct {
	known    bool
	dataType inferencepb.DataType
	dims     []int64
	model    string
}

// check compares the graph with the models of its steps. It returns for each step whether its model is decoupled.
func (g *Graph) check(cfg *inferencepb.ModelConfig, models Lookup) (decoupled []bool, _ error) {
	known := make([]signature, len(g.tensors))
	optional := make([]bool, len(g.tensors))
	for _, in := range cfg.GetInput() {
		n := g.inputs[in.GetName()]
		known[n] = signature{true, in.GetDataType(), g.dims(cfg, in.GetDims()), g.name}
		optional[n] = in.GetOptional()
	}
	for i, out := range cfg.GetOutput() {
		known[g.outputs[i]] = signature{true, out.GetDataType(), g.dims(cfg, out.GetDims()), g.name}
	}
	for i := range g.steps {
		s := &g.steps[i]
		model, err := models(s.model, s.version)
		if err != nil {
			return nil, status.Errorf(status.InvalidArg,
				"ensemble '%s' depends on '%s' which has no loaded version: %w", g.name, s.model, err)
		}
		if model.GetMaxBatchSize() < cfg.GetMaxBatchSize() {
			return nil, status.Errorf(status.InvalidArg,
				"ensemble %s allows maximum batch size %d, but it contains model %s which only allows "+
					"maximum batch size to be %d", g.name, cfg.GetMaxBatchSize(), s.model, model.GetMaxBatchSize())
		}
		decoupled = append(decoupled, model.GetModelTransactionPolicy().GetDecoupled())
		if err := g.checkInputs(s, model, known, optional); err != nil {
			return nil, err
		}
		if err := g.checkOutputs(s, model, known); err != nil {
			return nil, err
		}
	}
	return decoupled, g.checkDecoupled(decoupled)
}

// dims returns the shape inside the ensemble of a tensor of cfg. The tensors of a batching model have an additional
// batch dimension in an ensemble that does not batch.
func (g *Graph) dims(cfg *inferencepb.ModelConfig, dims []int64) []int64 {
	if g.batching || cfg.GetMaxBatchSize() == 0 {
		return dims
	}
	return append([]int64{-1}, dims...)
}

func (g *Graph) checkInputs(s *step, model *inferencepb.ModelConfig, known []signature, optional []bool) error {
	for _, l := range s.in {
		i := slices.IndexFunc(model.GetInput(), func(in *inferencepb.ModelInput) bool { return in.GetName() == l.port })
		if i < 0 {
			return status.Errorf(status.InvalidArg,
				"in ensemble %s, ensemble tensor %s is mapping to non-existing input %s in model %s",
				g.name, g.tensors[l.tensor], l.port, s.model)
		}
		in := model.GetInput()[i]
		if err := g.agree(l.tensor, known, signature{true, in.GetDataType(), g.dims(model, in.GetDims()),
			s.model}); err != nil {
			return err
		}
		if optional[l.tensor] && !in.GetOptional() {
			return status.Errorf(status.InvalidArg,
				"in ensemble %s, input %s may be left out, but input %s of model %s may not",
				g.name, g.tensors[l.tensor], l.port, s.model)
		}
	}
	for _, in := range model.GetInput() {
		if !in.GetOptional() && !slices.ContainsFunc(s.in, func(l link) bool { return l.port == in.GetName() }) {
			return status.Errorf(status.InvalidArg,
				"in ensemble %s, input %s in model %s is not mapped to any ensemble tensors",
				g.name, in.GetName(), s.model)
		}
	}
	return nil
}

func (g *Graph) checkOutputs(s *step, model *inferencepb.ModelConfig, known []signature) error {
	for _, l := range s.out {
		i := slices.IndexFunc(model.GetOutput(),
			func(out *inferencepb.ModelOutput) bool { return out.GetName() == l.port })
		if i < 0 {
			return status.Errorf(status.InvalidArg,
				"in ensemble %s, ensemble tensor %s is mapped from non-existing output %s in model %s",
				g.name, g.tensors[l.tensor], l.port, s.model)
		}
		out := model.GetOutput()[i]
		if err := g.agree(l.tensor, known, signature{true, out.GetDataType(), g.dims(model, out.GetDims()),
			s.model}); err != nil {
			return err
		}
	}
	return nil
}

// agree records the signature k of tensor n, or returns an error if it contradicts the recorded one.
func (g *Graph) agree(n int, known []signature, k signature) error {
	old := known[n]
	if !old.known {
		known[n] = k
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

// checkDecoupled refuses graphs with two decoupled steps of which neither follows the other: it is not defined which
// of their responses belong together.
func (g *Graph) checkDecoupled(decoupled []bool) error {
	sources := make([]map[int]bool, len(g.tensors)) // by tensor: the decoupled steps that it depends on
	for range g.steps {
		for i := range g.steps {
			s := &g.steps[i]
			from := map[int]bool{}
			for _, l := range s.in {
				maps.Copy(from, sources[l.tensor])
			}
			if decoupled[i] {
				from[i] = true
			}
			for _, l := range s.out {
				sources[l.tensor] = from
			}
		}
	}
	follows := func(a, b int) bool { // step a depends on the decoupled step b
		for _, l := range g.steps[a].in {
			if sources[l.tensor][b] {
				return true
			}
		}
		return false
	}
	for i := range g.steps {
		for j := range i {
			if decoupled[i] && decoupled[j] && !follows(i, j) && !follows(j, i) {
				return status.Errorf(status.InvalidArg,
					"in ensemble %s, the decoupled models '%s' and '%s' run side by side; which responses belong "+
						"together is not defined: put one behind the other", g.name, g.steps[j].model, g.steps[i].model)
			}
		}
	}
	return nil
}
