package backendtest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Model is a model that the backend under test can load, with a check of its responses.
type Model struct {
	Name   string
	Config *inferencepb.ModelConfig
	// ModelFolder and VersionFolder, for backends that read files.
	ModelFolder, VersionFolder string
	// Host is the server that the model may call; nil: there is none.
	Host backend.Host

	// Inputs returns the inputs of a request with a number of rows, 1 for a model without batching. Different seeds
	// must lead to different responses.
	Inputs func(rows int, seed uint64) []tensor.Tensor
	// Check compares the outputs of each response, in order, with the inputs.
	Check func(in []tensor.Tensor, responses [][]tensor.Tensor) error

	// Zero returns inputs without elements. Check must accept the response. Nil: the model accepts no such inputs.
	Zero func() []tensor.Tensor
	// Bad returns inputs that the backend must refuse. Nil: there are none.
	Bad func() []tensor.Tensor
	// Slow returns inputs that run for many seconds if they are not cancelled. Nil: there are none.
	Slow func() []tensor.Tensor
}

func (m *Model) decoupled() bool { return m.Config.GetModelTransactionPolicy().GetDecoupled() }

func (m *Model) spec() backend.Spec {
	return backend.Spec{
		ModelName: m.Name, Version: 1, Config: m.Config, ModelFolder: m.ModelFolder, VersionFolder: m.VersionFolder,
		Host: m.Host, Log: discard(),
	}
}

// rows returns the sizes of a batch's requests: one request for a model without batching.
func (m *Model) rows(sizes ...int) []int {
	if m.Config.GetMaxBatchSize() == 0 {
		return []int{1}
	}
	return sizes
}

// Refusal is a specification that the backend must refuse.
type Refusal struct {
	Name string
	Spec backend.Spec
	Code status.Code
	Text string // a part of the error's text
}

// call is a request with its inputs and responses.
type call struct {
	in        []tensor.Tensor
	rows      int
	request   *infer.Request
	responses []*infer.Response
	err       error
}

// newCall makes a request. live counts its input buffers until they are freed.
func newCall(in []tensor.Tensor, rows int, live *atomic.Int64) *call {
	c := &call{in: in, rows: rows, request: infer.New()}
	r := c.request
	for _, x := range in {
		b := tensor.NewBuffer(x.Data, func(*tensor.Buffer) { live.Add(-1) })
		live.Add(1)
		x.Buf = b
		r.Own(b)
		r.Inputs = append(r.Inputs, x)
	}
	r.BatchSize = rows
	return c
}

// wait reads the request's responses until the final one.
func (c *call) wait(t *testing.T) {
	t.Helper()
	for {
		resp, err := c.request.Next(t.Context())
		if err != nil {
			t.Errorf("no final response: %v", err)
			return
		}
		c.responses = append(c.responses, resp)
		if resp.Err != nil {
			c.err = resp.Err
		}
		if resp.Final {
			return
		}
	}
}

// check checks the responses with the model's Check.
func (c *call) check(m *Model) error {
	if c.err != nil {
		return fmt.Errorf("the answer is the error %w", c.err)
	}
	var all [][]tensor.Tensor
	for _, resp := range c.responses {
		if m.decoupled() && resp.Empty {
			continue
		}
		all = append(all, resp.Outputs)
	}
	return m.Check(c.in, all)
}

// release releases the responses and the request.
func (c *call) release() {
	for _, resp := range c.responses {
		resp.Release()
	}
	c.request.Release()
}

// preview formats the first bytes of a tensor.
func preview(b []byte) string {
	if len(b) > 32 {
		return fmt.Sprintf("%x… (%d bytes)", b[:32], len(b))
	}
	return fmt.Sprintf("%x", b)
}

// Find returns the tensor with a name, nil if there is none.
func Find(ts []tensor.Tensor, name string) *tensor.Tensor {
	for i := range ts {
		if ts[i].Name == name {
			return &ts[i]
		}
	}
	return nil
}
