package builtin

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Sequence returns the backend "sequence": OUTPUT is the sum of INPUT (INT32 [1] or [1, 1] with its batch dimension)
// since the request with START true. There is one sum per row of the batch. The backend needs the direct strategy of
// the sequence batcher and the controls START and READY. A row that is not READY has no request.
func Sequence() backend.Backend {
	return sequence{name: "sequence", needs: []controlKind{kindStart, kindReady}, run: (*sums).rows}
}

// DynaSequence returns the backend "dyna_sequence". It is like "sequence", but has one sum per correlation ID, and adds
// the correlation ID to the sum of the request with END true. It needs the controls START, END and CORRID, and works
// with both strategies.
func DynaSequence() backend.Backend {
	return sequence{name: "dyna_sequence", needs: []controlKind{kindStart, kindEnd, kindCorrelation}, run: (*sums).ids}
}

// IterativeSequence returns the backend "iterative_sequence", for a decoupled model with iterative_sequence. It
// responds to an INPUT of n (INT32, one element) with the OUTPUTs n-1, n-2 … 0, one per execution. It needs the
// controls START and CORRID.
func IterativeSequence() backend.Backend {
	return sequence{name: "iterative_sequence", needs: []controlKind{kindStart, kindCorrelation}, run: (*sums).steps}
}

type controlKind = inferencepb.ModelSequenceBatching_Control_Kind

const (
	kindStart       = inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_START
	kindEnd         = inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_END
	kindReady       = inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_READY
	kindCorrelation = inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID
)

type sequence struct {
	name  string
	needs []controlKind
	run   func(x *sums, b *infer.Batch) error
}

func (s sequence) Name() string { return s.name }

func (s sequence) Traits() backend.Traits { return backend.Traits{} }

func (s sequence) Load(_ context.Context, spec backend.Spec) (backend.Model, error) {
	c := spec.Config
	in, out := c.GetInput(), c.GetOutput()
	if len(in) != 1 || in[0].GetName() != "INPUT" || in[0].GetDataType() != inferencepb.DataType_TYPE_INT32 {
		return nil, status.Errorf(status.InvalidArg, "%s needs the one input INPUT of TYPE_INT32", s.name)
	}
	if len(out) != 1 || out[0].GetName() != "OUTPUT" || out[0].GetDataType() != inferencepb.DataType_TYPE_INT32 {
		return nil, status.Errorf(status.InvalidArg, "%s needs the one output OUTPUT of TYPE_INT32", s.name)
	}
	if n, err := tensor.Elements(in[0].GetDims()); err != nil || n != 1 {
		return nil, status.Errorf(status.InvalidArg, "%s needs an INPUT of one element, such as dims: [ 1 ]", s.name)
	}
	m := &sequenceModel{run: s.run, controls: map[controlKind]controlInput{}}
	for _, in := range c.GetSequenceBatching().GetControlInput() {
		for _, ctl := range in.GetControl() {
			m.controls[ctl.GetKind()] = controlInput{in.GetName(), trueValue(ctl)}
		}
	}
	for _, k := range s.needs {
		if _, ok := m.controls[k]; !ok {
			return nil, status.Errorf(status.InvalidArg, "%s needs a control_input of kind %s in its sequence_batching",
				s.name, k)
		}
	}
	var err error
	m.delay, err = millis(c, "execute_delay_ms")
	return m, err
}

// controlInput is the input of a control and its value for true.
type controlInput struct {
	name string
	on   []byte
}

func trueValue(c *inferencepb.ModelSequenceBatching_Control) []byte {
	switch i, f, b := c.GetInt32FalseTrue(), c.GetFp32FalseTrue(), c.GetBoolFalseTrue(); {
	case len(i) == 2:
		return binary.LittleEndian.AppendUint32(nil, uint32(i[1]))
	case len(f) == 2:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(f[1]))
	case len(b) == 2 && b[1]:
		return []byte{1}
	}
	return []byte{0}
}

type sequenceModel struct {
	run      func(x *sums, b *infer.Batch) error
	controls map[controlKind]controlInput
	delay    time.Duration
}

func (m *sequenceModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return &sums{m: m, byID: map[string]int32{}}, nil
}

func (m *sequenceModel) Traits() backend.Traits { return backend.Traits{} }

func (m *sequenceModel) Close() error { return nil }

// sums is an instance.
type sums struct {
	m     *sequenceModel
	byRow []int32
	byID  map[string]int32
}

func (x *sums) Close() error { return nil }

func (x *sums) Execute(ctx context.Context, b *infer.Batch) error {
	b.MarkInput()
	if err := pause(ctx, x.m.delay,
		slices.DeleteFunc(slices.Clone(b.Requests), func(r *infer.Request) bool { return r.Null })...); err != nil {
		return err
	}
	b.MarkOutput()
	return x.m.run(x, b)
}

func (x *sums) is(r *infer.Request, k controlKind) bool {
	c, ok := x.m.controls[k]
	in := r.Input(c.name)
	return ok && in != nil && bytes.Equal(in.Data, c.on)
}

func (x *sums) rows(b *infer.Batch) error {
	for i, r := range b.Requests {
		if i == len(x.byRow) {
			x.byRow = append(x.byRow, 0)
		}
		if !x.is(r, kindReady) {
			continue
		}
		if x.is(r, kindStart) {
			x.byRow[i] = 0
		}
		n, err := element(r)
		if err != nil {
			r.Fail(err)
			continue
		}
		x.byRow[i] += n
		if err := respond(r, x.byRow[i], true); err != nil {
			return err
		}
	}
	return nil
}

// id returns the correlation ID from the control input, and its value as a number.
func (x *sums) id(r *infer.Request) (text string, number int32, err error) {
	c := x.m.controls[kindCorrelation]
	in := r.Input(c.name)
	if in == nil {
		return "", 0, status.Errorf(status.Internal, "the request has no input %s", c.name)
	}
	data := in.Data
	if in.DataType == tensor.Bytes {
		if err := tensor.CheckBytes(data, 1); err != nil {
			return "", 0, err
		}
		return string(data[4:]), int32(len(data) - 4), nil // the length in place of a value
	}
	if len(data) < 4 {
		return "", 0, status.Errorf(status.Internal, "%s has %d bytes", c.name, len(data))
	}
	return string(data), int32(binary.LittleEndian.Uint32(data)), nil
}

func (x *sums) ids(b *infer.Batch) error {
	for _, r := range b.Requests {
		if _, ready := x.m.controls[kindReady]; r.Null || ready && !x.is(r, kindReady) {
			continue
		}
		sum, err := x.add(r)
		if err != nil {
			r.Fail(err)
			continue
		}
		if err := respond(r, sum, true); err != nil {
			return err
		}
	}
	return nil
}

func (x *sums) add(r *infer.Request) (int32, error) {
	id, number, err := x.id(r)
	if err != nil {
		return 0, err
	}
	n, err := element(r)
	if err != nil {
		return 0, err
	}
	sum, known := x.byID[id]
	switch start := x.is(r, kindStart); {
	case start:
		sum = 0
	case !known:
		return 0, status.Errorf(status.Internal, "no sequence %s has started on this instance",
			strings.ToValidUTF8(id, "?"))
	}
	sum += n
	x.byID[id] = sum
	if x.is(r, kindEnd) {
		delete(x.byID, id)
		sum += number
	}
	return sum, nil
}

func (x *sums) steps(b *infer.Batch) error {
	for _, r := range b.Requests {
		if r.Null {
			continue
		}
		id, _, err := x.id(r)
		if err != nil {
			r.Fail(err)
			continue
		}
		if x.is(r, kindStart) {
			if x.byID[id], err = element(r); err != nil {
				r.Fail(err)
				continue
			}
		}
		x.byID[id]--
		left := x.byID[id]
		if err := respond(r, left, left <= 0); err != nil {
			return err
		}
		if left > 0 {
			r.Reschedule()
		} else {
			delete(x.byID, id)
		}
	}
	return nil
}

func element(r *infer.Request) (int32, error) {
	in := r.Input("INPUT")
	if in == nil || len(in.Data) != 4 {
		return 0, status.New(status.InvalidArg, "INPUT must be one INT32")
	}
	return int32(binary.LittleEndian.Uint32(in.Data)), nil
}

// respond sends a number as OUTPUT, in the shape of INPUT.
func respond(r *infer.Request, n int32, final bool) error {
	resp := r.NewResponse()
	resp.Final = final
	if r.Wants("OUTPUT") {
		resp.AddOutput("OUTPUT", tensor.Int32, r.Input("INPUT").Shape,
			binary.LittleEndian.AppendUint32(nil, uint32(n)), nil)
	}
	return r.Respond(resp)
}
