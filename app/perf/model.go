package perf

import (
	"context"
	"fmt"
	"slices"

	"nereid/engine/client"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// IO is an input or an output of a model.
type IO struct {
	Name     string
	DataType tensor.DataType
	Shape    []int64 // of one row, without the batch dimension; -1 is a variable dimension
	Optional bool
}

// Model is what the load needs to know about a model.
type Model struct {
	Name, Version   string
	MaxBatchSize    int
	Inputs, Outputs []IO
	Decoupled       bool
	Sequence        bool // it, or a composing model, has sequence batching
	Cached          bool // it, or a composing model, has a response cache
	Composing       []ModelVersion
}

// HasInput reports whether the model has an input of that name.
func (m *Model) HasInput(name string) bool {
	return slices.ContainsFunc(m.Inputs, func(in IO) bool { return in.Name == name })
}

// ModelVersion names a composing model; Version "" is any.
type ModelVersion struct{ Name, Version string }

// Describe asks a server for the configuration of a model and of the steps of an ensemble. composing are further models
// that the model calls.
func Describe(ctx context.Context, c client.Client, name, version string, composing []ModelVersion) (Model, error) {
	cfg, err := c.ModelConfig(ctx, name, version)
	if err != nil {
		return Model{}, fmt.Errorf("the configuration of model %q: %w", name, err)
	}
	m := Model{
		Name: name, Version: version, MaxBatchSize: int(cfg.GetMaxBatchSize()),
		Decoupled: cfg.GetModelTransactionPolicy().GetDecoupled(),
	}
	for _, in := range cfg.GetInput() {
		m.Inputs = append(m.Inputs, IO{Name: in.GetName(), DataType: dataType(in.GetDataType()), Shape: in.GetDims(),
			Optional: in.GetOptional()})
	}
	for _, out := range cfg.GetOutput() {
		m.Outputs = append(m.Outputs, IO{Name: out.GetName(), DataType: dataType(out.GetDataType()),
			Shape: out.GetDims()})
	}
	m.Composing = slices.Clone(composing)
	return m, m.follow(ctx, c, cfg, 0)
}

// follow adds the steps of an ensemble, and their steps.
func (m *Model) follow(ctx context.Context, c client.Client, cfg *inferencepb.ModelConfig, depth int) error {
	m.Sequence = m.Sequence || cfg.GetSequenceBatching() != nil
	m.Cached = m.Cached || cfg.GetResponseCache().GetEnable()
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		v := ModelVersion{Name: s.GetModelName()}
		if n := s.GetModelVersion(); n > 0 {
			v.Version = fmt.Sprint(n)
		}
		if slices.Contains(m.Composing, v) || depth > 32 {
			continue
		}
		m.Composing = append(m.Composing, v)
		part, err := c.ModelConfig(ctx, v.Name, v.Version)
		if err != nil {
			return fmt.Errorf("the configuration of model %q, a step of %q: %w", v.Name, m.Name, err)
		}
		if err := m.follow(ctx, c, part, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func dataType(t inferencepb.DataType) tensor.DataType {
	if t == inferencepb.DataType_TYPE_STRING {
		return tensor.Bytes
	}
	name := t.String()
	return tensor.ParseDataType(name[min(len(name), len("TYPE_")):])
}
