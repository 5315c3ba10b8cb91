package ensemble

import (
	"maps"
	"slices"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// signature is the type and shape of an ensemble's tensor, and the model whose configuration states it.
type signature struct {
	known    bool
	dataType inferencepb.DataType
	dims     []int64
	batched  bool // the model has a batch dimension before dims
	model    string
}

// fit is the part of a model's configuration on which the execution of its step depends.
type fit struct {
	decoupled, batched bool
	dims               [][]int64 // of the inputs, in the order of step.in
	recurs             bool      // a step that depends on it runs its model, or one of its steps if it is an ensemble
}

// check compares the graph with the models of its steps, and returns a fit for each step.
func (g *Graph) check(cfg *inferencepb.ModelConfig, models Lookup) (fits []fit, _ error) {
	known := make([]signature, len(g.tensors))
	for _, in := range cfg.GetInput() {
		n := g.inputs[in.GetName()]
		known[n] = signature{true, in.GetDataType(), graphDims(in), g.batching, g.name}
	}
	for i, out := range cfg.GetOutput() {
		known[g.outputs[i]] = signature{true, out.GetDataType(), graphDims(out), g.batching, g.name}
	}
	for i := range g.steps {
		s := &g.steps[i]
		model, err := models(s.model, s.version)
		if err != nil {
			return nil, g.missing(s, models, err)
		}
		// An ensemble that batches may contain models that do not, if the shapes with the batch dimension fit.
		if most := model.GetMaxBatchSize(); most != 0 && most < cfg.GetMaxBatchSize() {
			return nil, status.Errorf(status.InvalidArg,
				"ensemble %s allows maximum batch size %d, but it contains model %s which only allows "+
					"maximum batch size to be %d", g.name, cfg.GetMaxBatchSize(), s.model, model.GetMaxBatchSize())
		}
		dims, err := g.checkInputs(s, model, known)
		if err != nil {
			return nil, err
		}
		fits = append(fits, fit{decoupled: model.GetModelTransactionPolicy().GetDecoupled(),
			batched: model.GetMaxBatchSize() > 0, dims: dims})
		if err := g.checkOutputs(s, model, known); err != nil {
			return nil, err
		}
	}
	return fits, g.checkDecoupled(fits, models)
}

// missing returns the error, with Triton's text, of a step whose model is not there. err is that of the lookup.
func (g *Graph) missing(s *step, models Lookup, err error) error {
	if _, other := models(s.model, infer.LatestVersion); other == nil {
		return status.Errorf(status.InvalidArg,
			"ensemble '%s' depends on '%s' whose required version %d is not loaded", g.name, s.model, s.version)
	}
	return status.Errorf(status.InvalidArg,
		"ensemble '%s' depends on '%s' which has no loaded version: %w", g.name, s.model, err)
}

// graphDims returns the dims that an input or output of the ensemble has in its graph: those of its reshape, if it has
// one.
func graphDims(t interface {
	GetDims() []int64
	GetReshape() *inferencepb.ModelTensorReshape
}) []int64 {
	if re := t.GetReshape(); re != nil {
		return re.GetShape()
	}
	return t.GetDims()
}

// full returns the shape with its batch dimension.
func (k signature) full() []int64 {
	if k.batched {
		return append([]int64{-1}, k.dims...)
	}
	return k.dims
}

// checkInputs returns the dims of the model's inputs, in the order of s.in.
func (g *Graph) checkInputs(s *step, model *inferencepb.ModelConfig, known []signature) (dims [][]int64, _ error) {
	for _, l := range s.in {
		i := slices.IndexFunc(model.GetInput(), func(in *inferencepb.ModelInput) bool { return in.GetName() == l.port })
		if i < 0 {
			return nil, status.Errorf(status.InvalidArg,
				"in ensemble %s, ensemble tensor %s is mapping to non-existing input %s in model %s",
				g.name, g.tensors[l.tensor], l.port, s.model)
		}
		in := model.GetInput()[i]
		if err := g.agree(l.tensor, known, signature{true, in.GetDataType(), in.GetDims(),
			model.GetMaxBatchSize() > 0, s.model}); err != nil {
			return nil, err
		}
		dims = append(dims, in.GetDims())
	}
	for _, in := range model.GetInput() {
		if !in.GetOptional() && !slices.ContainsFunc(s.in, func(l link) bool { return l.port == in.GetName() }) {
			return nil, status.Errorf(status.InvalidArg,
				"in ensemble %s, input %s in model %s is not mapped to any ensemble tensors",
				g.name, in.GetName(), s.model)
		}
	}
	return dims, nil
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
		if err := g.agree(l.tensor, known, signature{true, out.GetDataType(), out.GetDims(),
			model.GetMaxBatchSize() > 0, s.model}); err != nil {
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
				"inferred from model %s", g.name, g.tensors[n], old.dataType, old.model, k.dataType, k.model)
	}
	if !sameDims(old.full(), k.full()) && (g.batching || !sameDims(old.dims, k.dims)) {
		return status.Errorf(status.InvalidArg,
			"in ensemble %s, ensemble tensor %s: inconsistent shape: %s is inferred from model %s while %s is "+
				"inferred from model %s", g.name, g.tensors[n], tensor.FormatShape(old.full()), old.model,
			tensor.FormatShape(k.full()), k.model)
	}
	return nil
}

// sameDims reports whether two shapes can be the same; -1 stands for any size.
func sameDims(a, b []int64) bool {
	return slices.EqualFunc(a, b, func(x, y int64) bool { return x == y || x < 0 || y < 0 })
}

// checkDecoupled refuses graphs with two decoupled steps of which neither follows the other: it is not defined which
// of their responses belong together. It sets recurs of the fits.
func (g *Graph) checkDecoupled(fits []fit, models Lookup) error {
	sources := make([]map[int]bool, len(g.tensors)) // by tensor: the decoupled steps that it depends on
	for range g.steps {
		for i := range g.steps {
			s := &g.steps[i]
			from := map[int]bool{}
			for _, l := range s.in {
				maps.Copy(from, sources[l.tensor])
			}
			if fits[i].decoupled {
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
		for j := range g.steps {
			if fits[i].decoupled && follows(j, i) && g.shares(i, j, models) {
				fits[i].recurs = true
			}
		}
		for j := range i {
			if fits[i].decoupled && fits[j].decoupled && !follows(i, j) && !follows(j, i) {
				return status.Errorf(status.InvalidArg,
					"in ensemble %s, step of model '%s' receives inputs originated from different decoupled models: "+
						"'%s' and '%s'; put one behind the other",
					g.name, g.joins(sources, i, j), g.steps[j].model, g.steps[i].model)
			}
		}
	}
	return nil
}

// shares reports whether two steps run the same model, or have one in common if they run ensembles.
func (g *Graph) shares(i, j int, models Lookup) bool {
	a, b := map[string]bool{}, map[string]bool{}
	addModels(a, g.steps[i].model, g.steps[i].version, models)
	addModels(b, g.steps[j].model, g.steps[j].version, models)
	for name := range a {
		if b[name] {
			return true
		}
	}
	return false
}

// addModels adds a model and, if it is an ensemble, those of its steps.
func addModels(all map[string]bool, model string, version int64, models Lookup) {
	if all[model] {
		return
	}
	all[model] = true
	cfg, err := models(model, version)
	if err != nil {
		return // the check of that ensemble says so
	}
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		addModels(all, StepKey(s), stepVersion(s), models)
	}
}

// joins returns the model of the first step that depends on steps i and j, or the ensemble's name if none does.
func (g *Graph) joins(sources []map[int]bool, i, j int) string {
	for n := range g.steps {
		from := map[int]bool{}
		for _, l := range g.steps[n].in {
			maps.Copy(from, sources[l.tensor])
		}
		if from[i] && from[j] {
			return g.steps[n].model
		}
	}
	return g.name
}
