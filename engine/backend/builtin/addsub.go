package builtin

import (
	"context"
	"slices"
	"unsafe"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// AddSub returns the backend "add_sub": OUTPUT0 = INPUT0 + INPUT1 and OUTPUT1 = INPUT0 - INPUT1, element by element.
// All tensors have the same numeric type and shape. Integers wrap; FP16 and BF16 are computed in FP32 and rounded to
// nearest, ties to even.
func AddSub() backend.Backend { return &addSub{} }

type addSub struct {
	pool tensor.Pool // of output memory
}

func (*addSub) Name() string { return "add_sub" }

func (*addSub) Traits() backend.Traits { return backend.Traits{} }

func (a *addSub) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	c := s.Config
	if len(c.GetInput()) != 2 || len(c.GetOutput()) != 2 {
		return nil, status.Errorf(status.InvalidArg,
			"add_sub needs the inputs INPUT0, INPUT1 and the outputs OUTPUT0, OUTPUT1, got %d inputs and %d outputs",
			len(c.GetInput()), len(c.GetOutput()))
	}
	dt, dims := c.GetInput()[0].GetDataType(), c.GetInput()[0].GetDims()
	for _, name := range []string{"INPUT0", "INPUT1"} {
		x := find(c.GetInput(), name)
		if x == nil {
			return nil, status.Errorf(status.InvalidArg, "add_sub needs the input %s", name)
		}
		if x.GetDataType() != dt || !slices.Equal(x.GetDims(), dims) {
			return nil, status.New(status.InvalidArg, "add_sub needs INPUT0 and INPUT1 of one datatype and shape")
		}
	}
	for _, name := range []string{"OUTPUT0", "OUTPUT1"} {
		x := find(c.GetOutput(), name)
		if x == nil {
			return nil, status.Errorf(status.InvalidArg, "add_sub needs the output %s", name)
		}
		if x.GetDataType() != dt || !slices.Equal(x.GetDims(), dims) {
			return nil, status.Errorf(status.InvalidArg, "add_sub needs %s of the datatype and shape of INPUT0", name)
		}
	}
	kernel := kernels[dataType(dt)]
	if kernel == nil {
		return nil, status.Errorf(status.InvalidArg, "add_sub cannot add %s; use a numeric datatype", dt)
	}
	return &addSubModel{pool: &a.pool, dt: dataType(dt), kernel: kernel}, nil
}

type addSubModel struct {
	pool   *tensor.Pool
	dt     tensor.DataType
	kernel kernel
}

func (m *addSubModel) Traits() backend.Traits { return backend.Traits{RunsInline: true} }

func (m *addSubModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return m, nil // instances have no state
}

func (m *addSubModel) Close() error { return nil }

func (m *addSubModel) Execute(_ context.Context, b *infer.Batch) error {
	b.MarkInput()
	for _, r := range b.Requests {
		resp, err := m.response(r)
		b.MarkOutput() // before the response: its statistics read the time stamps
		if err != nil {
			r.Fail(err)
			continue
		}
		if err := r.Respond(resp); err != nil {
			return err
		}
	}
	return nil
}

func (m *addSubModel) response(r *infer.Request) (*infer.Response, error) {
	x, y := r.Input("INPUT0"), r.Input("INPUT1")
	switch {
	case x == nil || y == nil:
		return nil, status.New(status.InvalidArg, "add_sub needs the inputs INPUT0 and INPUT1")
	case x.DataType != m.dt || y.DataType != m.dt:
		return nil, status.Errorf(status.InvalidArg, "expected INPUT0 and INPUT1 of %s, got %s and %s", m.dt,
			x.DataType, y.DataType)
	case !slices.Equal(x.Shape, y.Shape):
		return nil, status.Errorf(status.InvalidArg, "expected INPUT0 and INPUT1 shape to match, got %s and %s",
			tensor.FormatShape(x.Shape), tensor.FormatShape(y.Shape))
	}
	if n, err := tensor.ByteSize(m.dt, x.Shape); err != nil || n != int64(len(x.Data)) || n != int64(len(y.Data)) {
		return nil, status.Errorf(status.InvalidArg,
			"shape %s of %s does not fit INPUT0 of %d bytes and INPUT1 of %d bytes",
			tensor.FormatShape(x.Shape), m.dt, len(x.Data), len(y.Data))
	}
	resp := r.NewResponse()
	resp.Final = true
	sum, diff := m.pool.Get(len(x.Data)), m.pool.Get(len(x.Data))
	m.kernel(x.Data, y.Data, sum.Bytes(), diff.Bytes())
	m.addOutput(r, resp, "OUTPUT0", x.Shape, sum)
	m.addOutput(r, resp, "OUTPUT1", x.Shape, diff)
	return resp, nil
}

func (m *addSubModel) addOutput(r *infer.Request, resp *infer.Response, name string, shape []int64,
	buf *tensor.Buffer) {
	if !r.Wants(name) {
		buf.Release()
		return
	}
	resp.AddOutput(name, m.dt, shape, buf.Bytes(), buf)
}

// kernel writes a+b and a-b. All four have the same length, a whole number of little-endian elements.
type kernel func(a, b, sum, diff []byte)

var kernels = [...]kernel{
	tensor.Uint8: numbers[uint8], tensor.Uint16: numbers[uint16],
	tensor.Uint32: numbers[uint32], tensor.Uint64: numbers[uint64],
	tensor.Int8: numbers[int8], tensor.Int16: numbers[int16],
	tensor.Int32: numbers[int32], tensor.Int64: numbers[int64],
	tensor.FP32: numbers[float32], tensor.FP64: numbers[float64],
	tensor.FP16: halves(tensor.Float16, tensor.ToFloat16), tensor.BF16: halves(tensor.BFloat16, tensor.ToBFloat16),
}

type number interface {
	uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64
}

// numbers uses the memory as slices of T: all supported machines are little-endian and allow unaligned access.
func numbers[T number](a, b, sum, diff []byte) {
	x, y, s, d := view[T](a), view[T](b), view[T](sum), view[T](diff)
	for i := range x {
		s[i] = x[i] + y[i]
		d[i] = x[i] - y[i]
	}
}

func view[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

func halves(widen func(uint16) float32, narrow func(float32) uint16) kernel {
	return func(a, b, sum, diff []byte) {
		x, y, s, d := view[uint16](a), view[uint16](b), view[uint16](sum), view[uint16](diff)
		for i := range x {
			s[i] = narrow(widen(x[i]) + widen(y[i]))
			d[i] = narrow(widen(x[i]) - widen(y[i]))
		}
	}
}
