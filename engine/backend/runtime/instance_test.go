package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// echo is a runner whose outputs are its inputs. Inputs that begin with poison fail the run.
type echo struct {
	dt         tensor.DataType
	overwrites bool // all runs have one memory for their outputs
	memory     []byte
	shapes     [][]int64
	data       [][]byte
	want       []int
	runs       []int // the rows of each run
	closed     bool
}

var poison = []byte{66, 66, 66, 66}

func (e *echo) Put(i int, shape []int64, parts [][]byte) error {
	for len(e.data) <= i {
		e.data, e.shapes = append(e.data, nil), append(e.shapes, nil)
	}
	e.data[i], e.shapes[i] = bytes.Join(parts, nil), slices.Clone(shape)
	return nil
}

func (e *echo) Run(want []int) error {
	e.want = want
	for i := range e.data {
		if bytes.Contains(e.data[i], poison) {
			return errors.New("poison")
		}
	}
	rows := 1
	if len(e.shapes[0]) > 0 {
		rows = int(e.shapes[0][0])
	}
	e.runs = append(e.runs, rows)
	if e.overwrites {
		e.memory = append(e.memory[:0], e.data[0]...)
		e.data[0] = e.memory
	}
	return nil
}

func (e *echo) Output(k int) (tensor.DataType, []int64, []byte, int, error) {
	i := e.want[k]
	if e.dt == tensor.Bytes {
		return e.dt, e.shapes[i], nil, len(e.data[i]), nil
	}
	return e.dt, e.shapes[i], e.data[i], len(e.data[i]), nil
}

func (e *echo) Strings(k int, buf []byte) { copy(buf, e.data[e.want[k]]) }
func (e *echo) Keep(int) func()           { return func() {} }
func (e *echo) Reset()                    {}
func (e *echo) Close()                    { e.closed = true }

// echoes is a backend whose instances run echo.
type echoes struct{ dt tensor.DataType }

func (echoes) Name() string           { return "echo" }
func (echoes) Traits() backend.Traits { return backend.Traits{} }
func (b echoes) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	return echoModel{b, s}, nil
}

type echoModel struct {
	b echoes
	s backend.Spec
}

func (m echoModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return newInstance(m.s, &echo{dt: m.b.dt}), nil
}
func (echoModel) Traits() backend.Traits { return backend.Traits{} }
func (echoModel) Close() error           { return nil }

func echoConfig(t *testing.T, dt tensor.DataType, more string) *inferencepb.ModelConfig {
	io := fmt.Sprintf(`[ { name: "X" data_type: %s dims: [ -1 ] } ]`, dt.ConfigName())
	return parse(t, "max_batch_size: 8\ninput "+io+"\noutput "+io+"\n"+more)
}

// values returns an input with rows. The number of elements in a row depends on the seed.
func values(dt tensor.DataType, width int) func(rows int, seed uint64) []tensor.Tensor {
	return func(rows int, seed uint64) []tensor.Tensor {
		var data []byte
		for i := range rows * width {
			if dt == tensor.Bytes {
				data = tensor.AppendBytesElement(data, strings.Repeat("x", (int(seed)+i)%50))
			} else {
				data = append(data, byte(seed), byte(i), byte(i>>8), 0)
			}
		}
		return []tensor.Tensor{{Name: "X", DataType: dt, Shape: []int64{int64(rows), int64(width)}, Data: data}}
	}
}

func sameAsIn(in []tensor.Tensor, responses [][]tensor.Tensor) error {
	if len(responses) != 1 || len(responses[0]) != 1 || !slices.Equal(responses[0][0].Shape,
		in[0].Shape) || !bytes.Equal(responses[0][0].Data, in[0].Data) {
		return fmt.Errorf("the answer is not the input %v", in[0].Shape)
	}
	return nil
}

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, dt := range []tensor.DataType{tensor.Int32, tensor.Bytes} {
		for _, width := range []int{4, 5000} {
			backendtest.Test(t, echoes{dt}, backendtest.Model{
				Name: fmt.Sprintf("%s_%d", dt, width), Config: echoConfig(t, dt, ""), Inputs: values(dt, width),
				Check: sameAsIn,
			})
		}
	}
}

// batch executes requests together and returns the data or the errors of their responses.
func batch(t *testing.T, x *instance, inputs ...[]tensor.Tensor) (data [][]byte, errs []error) {
	t.Helper()
	b := &infer.Batch{}
	for _, in := range inputs {
		r := infer.New()
		r.Inputs, r.BatchSize = in, int(in[0].Shape[0])
		b.Requests = append(b.Requests, r)
		b.Rows += r.BatchSize
	}
	if err := x.Execute(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.Requests {
		resp, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		errs = append(errs, resp.Err)
		if resp.Err == nil {
			data = append(data, bytes.Clone(resp.Outputs[0].Data))
		} else {
			data = append(data, nil)
		}
	}
	return data, errs
}

func TestBatches(t *testing.T) {
	make1 := values(tensor.Int32, 4)
	poisoned := []tensor.Tensor{{Name: "X", DataType: tensor.Int32, Shape: []int64{1, 4},
		Data: bytes.Repeat(poison, 4)}}
	large := values(tensor.Int32, 3000)
	for _, tt := range []struct {
		name   string
		x      func(x *instance, e *echo)
		inputs [][]tensor.Tensor
		runs   []int
		errs   []string
	}{
		{name: "alike requests run together", inputs: [][]tensor.Tensor{make1(2, 1), make1(3, 2)}, runs: []int{5}},
		{name: "others run separately", inputs: [][]tensor.Tensor{make1(2, 1), values(tensor.Int32, 5)(1, 2),
			make1(1, 3)},
			runs: []int{2, 1, 1}},
		{name: "one that fails fails alone", inputs: [][]tensor.Tensor{make1(1, 1), poisoned, make1(1, 3)},
			runs: []int{1, 1}, errs: []string{"", "poison", ""}},
		{name: "D065 filled up to the model's batch size", x: func(x *instance, _ *echo) { x.pad = 8 },
			inputs: [][]tensor.Tensor{make1(2, 1), make1(3, 2)}, runs: []int{8}},
		{name: "D065 another batch size than the model's", x: func(x *instance, _ *echo) { x.pad, x.exact = 8, true },
			inputs: [][]tensor.Tensor{make1(2, 1)},
			errs:   []string{"takes batches of 8 and got 2; set the parameter ENABLE_BATCH_PADDING"}},
		{name: "a run overwrites the last one's outputs", x: func(x *instance, e *echo) {
			x.overwrites,
				e.overwrites = true, true
		},
			inputs: [][]tensor.Tensor{large(1, 1), values(tensor.Int32, 3001)(1, 2), large(1, 3)},
			runs:   []int{1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &echo{dt: tensor.Int32}
			x := newInstance(backend.Spec{ModelName: "m", Config: echoConfig(t, tensor.Int32, ""),
				Log: slog.New(slog.DiscardHandler)}, e)
			if tt.x != nil {
				tt.x(x, e)
			}
			data, errs := batch(t, x, tt.inputs...)
			for i := range tt.inputs {
				want := ""
				if tt.errs != nil {
					want = tt.errs[i]
				}
				switch {
				case want != "" && (errs[i] == nil || !strings.Contains(errs[i].Error(), want)):
					t.Errorf("request %d: %v; want %q", i, errs[i], want)
				case want == "" && (errs[i] != nil || !bytes.Equal(data[i], tt.inputs[i][0].Data)):
					t.Errorf("request %d: %v, or other data", i, errs[i])
				}
			}
			if !slices.Equal(e.runs, tt.runs) {
				t.Errorf("the runs had %v rows; want %v", e.runs, tt.runs)
			}
			if err := x.Close(); err != nil || !e.closed {
				t.Errorf("Close = %v; the runner is closed: %v", err, e.closed)
			}
		})
	}
}

// late is an echo that reads its inputs when it runs, as libraries do that do not copy large inputs.
type late struct {
	echo
	parts [][][]byte
}

func (l *late) Put(i int, shape []int64, parts [][]byte) error {
	for len(l.parts) <= i {
		l.parts = append(l.parts, nil)
	}
	l.parts[i] = slices.Clone(parts)
	return l.echo.Put(i, shape, parts)
}

func (l *late) Run(want []int) error {
	for i := range l.parts {
		l.data[i] = bytes.Join(l.parts[i], nil)
	}
	return l.echo.Run(want)
}

func TestBatchInputsLiveUntilTheRun(t *testing.T) {
	l := &late{echo: echo{dt: tensor.Int32}}
	x := newInstance(backend.Spec{Log: slog.New(slog.DiscardHandler), Config: echoConfig(t, tensor.Int32, `
batch_input { kind: BATCH_ELEMENT_COUNT target_name: "COUNT" data_type: TYPE_INT32 source_input: "X" }
batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "UP_TO" data_type: TYPE_INT32 source_input: "X" }
`)}, l)
	in := func() []tensor.Tensor { return values(tensor.Int32, 3)(1, 1) }
	if _, errs := batch(t, x, in(), in()); errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	for i, want := range []string{1: "\x03\x00\x00\x00\x03\x00\x00\x00", 2: "\x03\x00\x00\x00\x06\x00\x00\x00"} {
		if i > 0 && string(l.data[i]) != want {
			t.Errorf("the run had %q as input %d, want %q", l.data[i], i, want)
		}
	}
}

func TestInvalidOutputsFailTheRequest(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		e            echo
		want         string
	}{
		{"of another type", "", echo{dt: tensor.FP32}, "model 'm' gave output 'X' as FP32, want INT32"},
		{"without a row for each request",
			`batch_output [ { target_name: "X" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "Y" } ]`,
			echo{dt: tensor.Int32}, "Y"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newInstance(backend.Spec{ModelName: "m", Config: echoConfig(t, tensor.Int32, tt.config),
				Log: slog.New(slog.DiscardHandler)}, &tt.e)
			if _, errs := batch(t, x, values(tensor.Int32, 4)(2,
				1)); errs[0] == nil || !strings.Contains(errs[0].Error(), tt.want) {
				t.Errorf("answered with %v; want %q", errs[0], tt.want)
			}
		})
	}
}

// A request's error has the code of the library's error.
func TestErrorsKeepTheirCode(t *testing.T) {
	if err := coded(libraryError{}); status.CodeOf(err) != status.NotFound {
		t.Errorf("coded = %v", status.CodeOf(err))
	}
}

type libraryError struct{}

func (libraryError) Error() string       { return "x" }
func (libraryError) Status() status.Code { return status.NotFound }
