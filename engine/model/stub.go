package model

import (
	"strconv"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
)

// Stub is what a request sees of a version, whether or not it is loaded. It does not change.
type Stub struct {
	name      string
	version   int64
	text      string // the version in decimal
	decoupled bool
	batched   bool
	labels    map[string][]string
}

var _ infer.Served = (*Stub)(nil)

// NewStub returns what requests see of a version, from its configuration and label files. Errors: InvalidArg.
func NewStub(name string, version int64, cfg *inferencepb.ModelConfig, modelFolder string) (*Stub, error) {
	labels, err := readLabels(modelFolder, cfg)
	if err != nil {
		return nil, err
	}
	return &Stub{
		name: name, version: version, text: strconv.FormatInt(version, 10), labels: labels,
		decoupled: cfg.GetModelTransactionPolicy().GetDecoupled(), batched: cfg.GetMaxBatchSize() > 0,
	}, nil
}

// Name returns the model's name.
func (s *Stub) Name() string { return s.name }

// Version returns the version's number.
func (s *Stub) Version() int64 { return s.version }

// VersionText returns the version's number in decimal.
func (s *Stub) VersionText() string { return s.text }

// Decoupled reports whether a request may have any number of responses.
func (s *Stub) Decoupled() bool { return s.decoupled }

// Batched reports whether the first dimension of its tensors is the batch.
func (s *Stub) Batched() bool { return s.batched }

// Labels returns the class labels of an output.
func (s *Stub) Labels(output string) []string { return s.labels[output] }
