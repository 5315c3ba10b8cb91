package builtin

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Identity returns the backend "identity": each INPUT<i> is returned as OUTPUT<i>, of any datatype and shape, without a
// copy. An optional input that is not given comes back as zeros of the configured shape, with 1 for each -1.
// The parameters "creation_delay_ms" and "execute_delay_ms" delay the start of each instance and each execution.
// "enable_custom_tracing" adds activities to the trace of each request, as Triton's backend does. They contain spans
// nested "nested_span_count" deep; every "single_activity_frequency"th span has an additional activity.
func Identity() backend.Backend { return identity{} }

type identity struct{}

func (identity) Name() string { return "identity" }

func (identity) Traits() backend.Traits { return backend.Traits{} }

func (identity) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	m := &identityModel{batches: s.Config.GetMaxBatchSize() > 0}
	var err error
	if m.executeDelay, err = millis(s.Config, "execute_delay_ms"); err != nil {
		return nil, err
	}
	if m.creationDelay, err = millis(s.Config, "creation_delay_ms"); err != nil {
		return nil, err
	}
	if m.pairs, err = pairs(s.Config); err != nil {
		return nil, err
	}
	m.traced = s.Config.GetParameters()["enable_custom_tracing"].GetStringValue() == "true"
	if m.spans, err = count(s.Config, "nested_span_count", 0, 0); err != nil {
		return nil, err
	}
	m.single, err = count(s.Config, "single_activity_frequency", 1, 1)
	return m, err
}

// pair is an input and the output that returns it. An optional one that is not given comes back as zeros.
type pair struct {
	in, out  string
	optional bool
	dt       tensor.DataType
	shape    []int64 // of the zeros, without the batch dimension
	size     int     // bytes of the zeros per row
}

// zeros sets what is returned in place of an optional input.
func (p *pair) zeros(in *inferencepb.ModelInput) {
	p.optional, p.dt = true, tensor.DataType(in.GetDataType())
	p.size = p.dt.Size()
	if p.dt == tensor.Bytes {
		p.size = 4 // an empty element
	}
	for _, d := range seen(in) {
		if d < 0 {
			d = 1
		}
		p.shape = append(p.shape, d)
		p.size *= int(d)
	}
}

func pairs(c *inferencepb.ModelConfig) ([]pair, error) {
	if len(c.GetInput()) != len(c.GetOutput()) {
		return nil, status.Errorf(status.InvalidArg,
			"model configuration must have equal input/output pairs, got %d inputs and %d outputs",
			len(c.GetInput()), len(c.GetOutput()))
	}
	var ps []pair
	for _, in := range c.GetInput() {
		index, ok := strings.CutPrefix(in.GetName(), "INPUT")
		if !ok || index == "" || strings.Trim(index, "0123456789") != "" {
			return nil, status.Errorf(status.InvalidArg, "expected input name to follow INPUT<index> pattern, got %s",
				in.GetName())
		}
		p := pair{in: in.GetName(), out: "OUTPUT" + index}
		out := find(c.GetOutput(), p.out)
		if out == nil {
			return nil, status.Errorf(status.InvalidArg, "input %s has no output %s to come back as", p.in, p.out)
		}
		if in.GetDataType() != out.GetDataType() {
			return nil, status.Errorf(status.InvalidArg, "expected %s and %s to have the same datatype, got %s and %s",
				p.in, p.out, in.GetDataType(), out.GetDataType())
		}
		if from, to := seen(in), seen(out); !slices.Equal(from, to) {
			return nil, status.Errorf(status.InvalidArg, "expected %s and %s to have the same shape, got %s and %s",
				p.in, p.out, tensor.FormatShape(from), tensor.FormatShape(to))
		}
		if in.GetOptional() {
			p.zeros(in)
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// seen returns the dims of an input or output as the backend sees it.
func seen(t interface {
	GetDims() []int64
	GetReshape() *inferencepb.ModelTensorReshape
}) []int64 {
	if re := t.GetReshape(); re != nil {
		return re.GetShape()
	}
	return t.GetDims()
}

type identityModel struct {
	pairs                       []pair
	batches                     bool
	executeDelay, creationDelay time.Duration
	traced                      bool
	spans, single               int // see Identity
}

func (m *identityModel) NewInstance(ctx context.Context, _ backend.Placement) (backend.Instance, error) {
	if err := pause(ctx, m.creationDelay); err != nil {
		return nil, err
	}
	return m, nil // instances have no state
}

func (m *identityModel) Close() error { return nil }

func (m *identityModel) Traits() backend.Traits {
	return backend.Traits{RunsInline: m.executeDelay == 0}
}

func (m *identityModel) Execute(ctx context.Context, b *infer.Batch) error {
	b.MarkInput()
	if m.executeDelay > 0 {
		if err := pause(ctx, m.executeDelay, b.Requests...); err != nil {
			return err
		}
	}
	b.MarkOutput()
	for _, r := range b.Requests {
		if m.traced && r.Trace != nil {
			m.trace(r)
		}
		resp := r.NewResponse()
		for i := range r.Inputs {
			in := &r.Inputs[i]
			name := m.output(in.Name)
			if name == "" || !r.Wants(name) {
				continue
			}
			in.Retain() // the response's reference
			resp.AddOutput(name, in.DataType, in.Shape, in.Data, in.Buf)
		}
		m.addZeros(r, resp)
		resp.Final = true
		if err := r.Respond(resp); err != nil {
			return err
		}
	}
	return nil
}

// addZeros adds the outputs of optional inputs that are not given.
func (m *identityModel) addZeros(r *infer.Request, resp *infer.Response) {
	if len(r.Inputs) == len(m.pairs) {
		return
	}
	for i := range m.pairs {
		p := &m.pairs[i]
		if !p.optional || !r.Wants(p.out) || r.Input(p.in) != nil {
			continue
		}
		shape, rows := p.shape, 1
		if m.batches {
			rows = r.BatchSize
			shape = append([]int64{int64(rows)}, shape...)
		}
		resp.AddOutput(p.out, p.dt, shape, make([]byte, rows*p.size), nil)
	}
}

// trace adds activities to the trace of a request. They only show how custom activities appear in a trace.
func (m *identityModel) trace(r *infer.Request) {
	span := func(i int, end string) string { return "CUSTOM_ACTIVITY" + strconv.Itoa(i) + end }
	r.Activity("CUSTOM_ACTIVITY_START")
	r.Activity("CUSTOM_ACTIVITY_END")
	r.Activity("CUSTOM_SINGLE_ACTIVITY")
	for i := range m.spans {
		r.Activity(span(i, "_START"))
		if i%m.single == 0 {
			r.Activity("CUSTOM_SINGLE_ACTIVITY")
		}
	}
	for i := m.spans - 1; i >= 0; i-- {
		r.Activity(span(i, "_END"))
	}
}

func (m *identityModel) output(input string) string {
	for i := range m.pairs {
		if m.pairs[i].in == input {
			return m.pairs[i].out
		}
	}
	return ""
}
