package grpcapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// reference converts a message of the generated decoder to what the codec must make of the same bytes.
func reference(in *inferencepb.ModelInferRequest) (*infer.Request, error) {
	r := &infer.Request{Content: infer.Content{ModelName: in.GetModelName(), ID: in.GetId()}}
	var err error
	if r.Version, err = parseVersion(in.GetModelVersion()); err != nil {
		return nil, err
	}
	m := message{}
	for name, p := range in.GetParameters() {
		m.params = append(m.params, referenceParameter(name, p))
	}
	if err := m.applyParameters(r); err != nil {
		return nil, err
	}
	raw := in.GetRawInputContents()
	if len(in.GetParameters()) > maxParameters || max(len(raw), len(in.GetInputs()),
		len(in.GetOutputs())) > maxTensors {
		return nil, errors.New("too many")
	}
	for _, i := range in.GetInputs() {
		t := tensor.Tensor{Name: i.GetName(), DataType: tensor.ParseDataType(i.GetDatatype()), Shape: i.GetShape()}
		if len(i.GetParameters()) > maxParameters || len(i.GetShape()) > maxDims {
			return nil, errors.New("too many")
		}
		if err := referenceShared(i.GetParameters(), t.Name); err != nil {
			return nil, err
		}
		switch {
		case i.GetContents() != nil && len(in.GetRawInputContents()) > 0:
			return nil, errors.New("raw and typed")
		case i.GetContents() != nil:
			if t.Data, err = referenceContents(i.GetContents(), t.DataType); err != nil {
				return nil, err
			}
		case len(raw) > 0:
			t.Data, raw = raw[0], raw[1:]
		default:
			return nil, errors.New("no data")
		}
		r.Inputs = append(r.Inputs, t)
	}
	if len(raw) > 0 {
		return nil, errors.New("surplus raw contents")
	}
	for _, o := range in.GetOutputs() {
		out := infer.RequestedOutput{Name: o.GetName(), Binary: true}
		if len(o.GetParameters()) > maxParameters {
			return nil, errors.New("too many")
		}
		var params []parameter
		for name, p := range o.GetParameters() {
			params = append(params, referenceParameter(name, p))
		}
		if err := referenceShared(o.GetParameters(), out.Name); err != nil {
			return nil, err
		}
		if out.Classification, err = classCount(params); err != nil {
			return nil, err
		}
		r.Outputs = append(r.Outputs, out)
	}
	return r, nil
}

// referenceShared refuses every tensor in shared memory: there are no regions.
func referenceShared(in map[string]*inferencepb.InferParameter, tensor string) error {
	var params []parameter
	for name, p := range in {
		params = append(params, referenceParameter(name, p))
	}
	_, shared, err := sharedMemory(params, tensor)
	if shared {
		err = errors.New("shared memory")
	}
	return err
}

func referenceParameter(name string, p *inferencepb.InferParameter) parameter {
	v := parameter{Parameter: infer.Parameter{Name: name}, set: p.GetParameterChoice() != nil}
	switch c := p.GetParameterChoice().(type) {
	case *inferencepb.InferParameter_BoolParam:
		v.Kind, v.Bool = infer.BoolParameter, c.BoolParam
	case *inferencepb.InferParameter_Int64Param:
		v.Kind, v.Int = infer.IntParameter, c.Int64Param
	case *inferencepb.InferParameter_Uint64Param:
		v.Kind, v.Uint = infer.UintParameter, c.Uint64Param
	case *inferencepb.InferParameter_DoubleParam:
		v.Kind, v.Float = infer.FloatParameter, c.DoubleParam
	case *inferencepb.InferParameter_StringParam:
		v.Kind, v.Text = infer.StringParameter, c.StringParam
	}
	return v
}

func referenceContents(c *inferencepb.InferTensorContents, dt tensor.DataType) ([]byte, error) {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	need := func(n int, allowed ...tensor.DataType) error {
		if n > 0 && !slices.Contains(allowed, dt) {
			return fmt.Errorf("contents for %v are not for %v", allowed, dt)
		}
		return nil
	}
	if err := errors.Join(
		need(len(c.GetBoolContents()), tensor.Bool),
		need(len(c.GetIntContents()), tensor.Int8, tensor.Int16, tensor.Int32),
		need(len(c.GetInt64Contents()), tensor.Int64),
		need(len(c.GetUintContents()), tensor.Uint8, tensor.Uint16, tensor.Uint32),
		need(len(c.GetUint64Contents()), tensor.Uint64),
		need(len(c.GetFp32Contents()), tensor.FP32),
		need(len(c.GetFp64Contents()), tensor.FP64),
		need(len(c.GetBytesContents()), tensor.Bytes),
	); err != nil {
		return nil, err
	}
	switch dt {
	case tensor.Bool:
		put(c.GetBoolContents())
	case tensor.Int8, tensor.Int16, tensor.Int32:
		for _, v := range c.GetIntContents() {
			switch dt {
			case tensor.Int8:
				put(int8(v))
			case tensor.Int16:
				put(int16(v))
			default:
				put(v)
			}
		}
	case tensor.Int64:
		put(c.GetInt64Contents())
	case tensor.Uint8, tensor.Uint16, tensor.Uint32:
		for _, v := range c.GetUintContents() {
			switch dt {
			case tensor.Uint8:
				put(uint8(v))
			case tensor.Uint16:
				put(uint16(v))
			default:
				put(v)
			}
		}
	case tensor.Uint64:
		put(c.GetUint64Contents())
	case tensor.FP32:
		for _, v := range c.GetFp32Contents() {
			put(math.Float32bits(v))
		}
	case tensor.FP64:
		for _, v := range c.GetFp64Contents() {
			put(math.Float64bits(v))
		}
	case tensor.Bytes:
		for _, v := range c.GetBytesContents() {
			put(uint32(len(v)))
			b.Write(v)
		}
	}
	return b.Bytes(), nil
}

// describe writes what the engine sees of a request. Equal requests give equal text.
func describe(r *infer.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %d %q %d %v %+v %d\n", r.ModelName, r.Version, r.ID, r.Priority, r.Timeout, r.Correlation,
		r.Flags)
	params := slices.Clone(r.Parameters)
	slices.SortFunc(params, func(a, b infer.Parameter) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range params {
		fmt.Fprintf(&b, "parameter %q %d ", p.Name, p.Kind)
		switch p.Kind { // the other fields may hold an earlier choice
		case infer.BoolParameter:
			fmt.Fprintln(&b, p.Bool)
		case infer.IntParameter:
			fmt.Fprintln(&b, p.Int)
		case infer.UintParameter:
			fmt.Fprintln(&b, p.Uint)
		case infer.FloatParameter:
			fmt.Fprintln(&b, math.Float64bits(p.Float))
		default:
			fmt.Fprintf(&b, "%q\n", p.Text)
		}
	}
	for i := range r.Inputs {
		t := &r.Inputs[i]
		fmt.Fprintf(&b, "input %q %v %v %q\n", t.Name, t.DataType, t.Shape, t.Data)
	}
	for _, o := range r.Outputs {
		fmt.Fprintf(&b, "output %+v\n", o)
	}
	return b.String()
}

func seeds(f *testing.F) {
	f.Helper()
	for _, m := range []*inferencepb.ModelInferRequest{
		{},
		one("id", "7", 5, map[string]*inferencepb.InferParameter{"sequence_id": intParam(4),
			"sequence_start": boolParam(true),
			"priority":       intParam(1), "timeout": intParam(-1), "x": stringParam("y"),
			"d": {ParameterChoice: &inferencepb.InferParameter_DoubleParam{DoubleParam: 1.5}}}),
		{ModelName: "m", ModelVersion: "3", Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{
			{Name: "A", Datatype: "BYTES", Shape: []int64{2, -1, 1 << 40},
				Contents: &inferencepb.InferTensorContents{BytesContents: [][]byte{{1}, nil}}},
			{Name: "B", Datatype: "INT16", Shape: []int64{2},
				Contents: &inferencepb.InferTensorContents{IntContents: []int32{-1, 70000}}},
			{Name: "C", Datatype: "FP64", Shape: []int64{1},
				Contents: &inferencepb.InferTensorContents{Fp64Contents: []float64{2}}}},
			Outputs: []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "O",
				Parameters: map[string]*inferencepb.InferParameter{"classification": intParam(3)}}}},
		{ModelName: "m", Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "A", Datatype: "FP32",
			Shape:      []int64{1, 2},
			Parameters: map[string]*inferencepb.InferParameter{"shared_memory_region": stringParam("r")}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(len(b)/2))
	}
	// Contents that are not packed, and come twice.
	f.Add([]byte{0x2a, 0x0c, 0x18, 0x05, 0x18, 0x06, 0x2a, 0x02, 0x30, 0x00, 0x2a, 0x02, 0x10, 0x01}, uint16(3))
	// A group, and a known field of another wire type.
	f.Add([]byte{0x43, 0x08, 0x01, 0x44, 0x0d, 1, 2, 3, 4}, uint16(1))
}

// FuzzDecode compares the codec with the generated decoder: both refuse, or both see the same request, whether it came
// in one buffer or in two.
func FuzzDecode(f *testing.F) {
	seeds(f)
	var pool tensor.Pool
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		var in inferencepb.ModelInferRequest
		var want *infer.Request
		err := proto.Unmarshal(b, &in)
		if err == nil {
			want, err = reference(&in)
		}
		at := min(int(cut), len(b))
		for _, data := range [][][]byte{{b}, {b[:at], b[at:]}} {
			m := getMessage(&pool, nil)
			decodeMessage(t, m, &pool, data...)
			if (m.err != nil) != (err != nil) {
				t.Fatalf("%q: our error %v, the generated decoder's %v", b, m.err, err)
			}
			if m.err == nil {
				if got, want := describe(m.r), describe(want); got != want {
					t.Fatalf("%q:\nwe see\n%s\nthe generated decoder\n%s", b, got, want)
				}
				m.r.Release()
			}
			putMessage(m)
		}
	})
}

// FuzzEncode decodes a request and encodes it as a response, for the generated decoder to read.
func FuzzEncode(f *testing.F) {
	seeds(f)
	var pool tensor.Pool
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		m := getMessage(&pool, nil)
		defer putMessage(m)
		decodeMessage(t, m, &pool, b)
		if m.err != nil {
			return
		}
		defer m.r.Release()
		resp := &infer.Response{Parameters: m.r.Parameters}
		for i := range m.r.Inputs {
			in := &m.r.Inputs[i]
			data := in.Data
			if cut%3 == 0 { // large enough to be referred to
				data = slices.Concat(data, bytes.Repeat([]byte{byte(i)}, tieAt))
			}
			resp.AddOutput(in.Name, in.DataType, in.Shape, data, nil)
		}
		a := answer{model: m.r.ModelName, version: "1", id: m.r.ID, resp: resp}
		var out inferencepb.ModelInferResponse
		if err := proto.Unmarshal(a.encode().Materialize(), &out); err != nil {
			t.Fatal(err)
		}
		check(t, &a, &out)
		a.stream, a.err, a.final = true, "e", true
		var streamed inferencepb.ModelStreamInferResponse
		if err := proto.Unmarshal(a.encode().Materialize(), &streamed); err != nil {
			t.Fatal(err)
		}
		final := streamed.GetInferResponse().GetParameters()["triton_final_response"]
		if streamed.GetErrorMessage() != "e" || !final.GetBoolParam() {
			t.Fatalf("stream message %v", &streamed)
		}
		delete(streamed.GetInferResponse().GetParameters(), "triton_final_response")
		check(t, &a, streamed.GetInferResponse())
	})
}

func check(t *testing.T, a *answer, out *inferencepb.ModelInferResponse) {
	t.Helper()
	if out.GetModelName() != a.model || out.GetModelVersion() != a.version || out.GetId() != a.id ||
		len(out.ProtoReflect().GetUnknown()) > 0 ||
		len(out.GetParameters()) != len(a.resp.Parameters) || len(out.GetOutputs()) != len(a.resp.Outputs) ||
		len(out.GetRawOutputContents()) != len(a.resp.Outputs) {
		t.Fatalf("answer %+v became %v", a, out)
	}
	for i := range a.resp.Outputs {
		want, got := &a.resp.Outputs[i], out.GetOutputs()[i]
		if got.GetName() != want.Name || got.GetDatatype() != want.DataType.String() ||
			!slices.Equal(got.GetShape(), want.Shape) ||
			!bytes.Equal(out.GetRawOutputContents()[i], want.Data) {
			t.Fatalf("output %+v became %v", want, got)
		}
	}
	for i := range a.resp.Parameters {
		p := &a.resp.Parameters[i]
		if got := referenceParameter(p.Name, out.GetParameters()[p.Name]); got.Kind != p.Kind || got.Text != p.Text &&
			p.Kind == infer.StringParameter {
			t.Fatalf("parameter %+v became %+v", p, got)
		}
	}
}
