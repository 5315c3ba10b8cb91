package builtin

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Repeat returns the backend "repeat". Inputs: IN (INT32 [-1]), DELAY (UINT32 [-1], milliseconds, of IN's shape), WAIT
// (UINT32 [1], milliseconds). Outputs: OUT (INT32 [1]), IDX (UINT32 [1]). A model that is not decoupled takes one
// element.
func Repeat() backend.Backend {
	return &decoupled{name: "repeat", check: checkRepeat, plan: planRepeat}
}

// Square returns the backend "square". Input: IN (INT32 [1]). Output: OUT (INT32 [1]), n times for IN of n, none for n
// below 1. A model that is not decoupled takes 1.
func Square() backend.Backend {
	return &decoupled{name: "square", check: checkSquare, plan: planSquare}
}

func checkRepeat(c *inferencepb.ModelConfig) error {
	err := checkFixed("repeat", c,
		[]ioSpec{{"IN", tensor.Int32, -1}, {"DELAY", tensor.Uint32, -1}, {"WAIT", tensor.Uint32, 1}},
		[]ioSpec{{"OUT", tensor.Int32, 1}, {"IDX", tensor.Uint32, 1}})
	if err != nil {
		return err
	}
	if in, delay := c.GetInput()[0].GetDims(), c.GetInput()[1].GetDims(); !slices.Equal(in, delay) {
		return status.Errorf(status.InvalidArg, "expected IN and DELAY shape to match, got %s and %s",
			tensor.FormatShape(in), tensor.FormatShape(delay))
	}
	return nil
}

func checkSquare(c *inferencepb.ModelConfig) error {
	return checkFixed("square", c, []ioSpec{{"IN", tensor.Int32, 1}}, []ioSpec{{"OUT", tensor.Int32, 1}})
}

// stream describes the n responses to a request, and how long the request keeps the instance busy.
type stream struct {
	n       int
	wait    time.Duration
	delay   func(i int) time.Duration
	outputs func(i int, resp *infer.Response)
}

// words returns a required input of 32-bit elements. The request owns its memory.
func words(r *infer.Request, name string, dt tensor.DataType) (*tensor.Tensor, error) {
	in := r.Input(name)
	switch {
	case in == nil:
		return nil, status.Errorf(status.InvalidArg, "input %s is missing", name)
	case in.DataType != dt:
		return nil, status.Errorf(status.InvalidArg, "expected %s datatype to be %s, got %s", name, dt, in.DataType)
	}
	if n, err := tensor.ByteSize(dt, in.Shape); err != nil || n != int64(len(in.Data)) {
		return nil, status.Errorf(status.InvalidArg, "unexpected size for %s input: %d bytes for shape %s",
			name, len(in.Data), tensor.FormatShape(in.Shape))
	}
	return in, nil
}

func planRepeat(r *infer.Request) (s stream, err error) {
	in, err := words(r, "IN", tensor.Int32)
	if err != nil {
		return s, err
	}
	delay, err := words(r, "DELAY", tensor.Uint32)
	if err != nil {
		return s, err
	}
	wait, err := words(r, "WAIT", tensor.Uint32)
	if err != nil {
		return s, err
	}
	if len(wait.Data) != 4 {
		return s, status.New(status.InvalidArg, "unexpected size for WAIT input")
	}
	if !slices.Equal(in.Shape, delay.Shape) {
		return s, status.Errorf(status.InvalidArg, "expected IN and DELAY shape to match, got %s and %s",
			tensor.FormatShape(in.Shape), tensor.FormatShape(delay.Shape))
	}
	return stream{
		n:    len(in.Data) / 4,
		wait: time.Duration(binary.LittleEndian.Uint32(wait.Data)) * time.Millisecond,
		delay: func(i int) time.Duration {
			return time.Duration(binary.LittleEndian.Uint32(delay.Data[4*i:])) * time.Millisecond
		},
		outputs: func(i int, resp *infer.Response) {
			if r.Wants("OUT") {
				resp.AddOutput("OUT", tensor.Int32, []int64{1}, slices.Clone(in.Data[4*i:4*i+4]), nil)
			}
			if r.Wants("IDX") {
				resp.AddOutput("IDX", tensor.Uint32, []int64{1}, binary.LittleEndian.AppendUint32(nil, uint32(i)), nil)
			}
		},
	}, nil
}

func planSquare(r *infer.Request) (s stream, err error) {
	in, err := words(r, "IN", tensor.Int32)
	if err != nil {
		return s, err
	}
	if len(in.Data) != 4 {
		return s, status.Errorf(status.InvalidArg, "expected IN shape to be [1], got %s", tensor.FormatShape(in.Shape))
	}
	out := slices.Clone(in.Data)
	return stream{
		n:     max(0, int(int32(binary.LittleEndian.Uint32(out)))),
		delay: func(int) time.Duration { return 0 },
		outputs: func(_ int, resp *infer.Response) {
			if r.Wants("OUT") {
				resp.AddOutput("OUT", tensor.Int32, []int64{1}, out, nil)
			}
		},
	}, nil
}

// decoupled is a backend that responds to each request with a stream.
type decoupled struct {
	name  string
	check func(*inferencepb.ModelConfig) error
	plan  func(*infer.Request) (stream, error)
}

func (d *decoupled) Name() string { return d.name }

func (d *decoupled) Traits() backend.Traits { return backend.Traits{} }

func (d *decoupled) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	if err := d.check(s.Config); err != nil {
		return nil, err
	}
	return &decoupledModel{decoupled: d, decouples: s.Config.GetModelTransactionPolicy().GetDecoupled()}, nil
}

type decoupledModel struct {
	*decoupled
	decouples bool // any number of responses is allowed
}

func (m *decoupledModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return &decoupledInstance{model: m}, nil
}

func (m *decoupledModel) Close() error { return nil }

type decoupledInstance struct {
	model   *decoupledModel
	running sync.WaitGroup // one goroutine per request
}

// Execute starts a goroutine for each request and holds the instance for the longest WAIT.
func (d *decoupledInstance) Execute(ctx context.Context, b *infer.Batch) error {
	b.MarkInput()
	b.MarkOutput() // now, because the goroutines below respond while this one waits
	var wait time.Duration
	for _, r := range b.Requests {
		s, err := d.model.plan(r)
		if err == nil && !d.model.decouples && s.n != 1 {
			err = status.Errorf(status.InvalidArg,
				"%s would send %d responses and the model is not decoupled; set model_transaction_policy { "+
					"decoupled: true }",
				d.model.name, s.n)
		}
		if err != nil {
			r.Fail(err)
			continue
		}
		wait = max(wait, s.wait)
		r.Retain()
		d.running.Go(func() {
			defer r.Release()
			if err := d.send(ctx, r, s); err != nil {
				r.Fail(err)
			}
		})
	}
	err := pause(ctx, wait)
	if !d.model.decouples {
		d.running.Wait() // before the instance is free, because the model is not decoupled
	}
	return err
}

func (d *decoupledInstance) send(ctx context.Context, r *infer.Request, s stream) error {
	for i := range s.n {
		if err := pause(ctx, s.delay(i), r); err != nil {
			return err
		}
		switch {
		case r.Cancelled():
			return errCancelled
		case ctx.Err() != nil:
			return status.Errorf(status.Unavailable, "the instance is going away after %d of %d responses", i, s.n)
		}
		resp := r.NewResponse()
		s.outputs(i, resp)
		resp.Final = !d.model.decouples
		if err := r.Respond(resp); err != nil {
			return err
		}
	}
	if !d.model.decouples {
		return nil
	}
	end := r.NewResponse()
	end.Final, end.Empty = true, true
	return r.Respond(end)
}

// Close waits until all requests have their responses.
func (d *decoupledInstance) Close() error {
	d.running.Wait()
	return nil
}
