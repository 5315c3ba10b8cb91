package grpcapi

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func testModels() []*served {
	labels := make([]string, 16)
	for i := range labels {
		labels[i] = "label" + string(rune('a'+i))
	}
	return []*served{
		{name: "id"},
		{name: "classes", batch: 8, labels: labels},
		{name: "repeat", decoupled: true, answer: repeat},
		{name: "never", answer: func(r *infer.Request) { <-r.Done() }},
		{name: "fails", answer: func(r *infer.Request) { r.Fail(status.New(status.Internal, "my error")) }},
		{name: "breaks", decoupled: true, answer: func(r *infer.Request) {
			resp := r.NewResponse()
			resp.AddOutput("OUT", tensor.Uint8, []int64{1}, []byte{0}, nil)
			_ = r.Respond(resp)
			r.Fail(status.New(status.Internal, "my error"))
		}},
		{name: "stumbles", decoupled: true, answer: func(r *infer.Request) {
			bad, good, end := r.NewResponse(), r.NewResponse(), r.NewResponse()
			bad.Err = status.New(status.Internal, "my error")
			good.AddOutput("OUT", tensor.Uint8, []int64{1}, []byte{1}, nil)
			end.Final, end.Empty = true, true
			for _, resp := range []*infer.Response{bad, good, end} {
				_ = r.Respond(resp)
			}
		}},
		{name: "two_steps", answer: func(r *infer.Request) {
			resp := r.NewResponse()
			resp.AddOutput("OUTPUT0", tensor.Uint8, []int64{1}, []byte{7}, nil)
			_ = r.Respond(resp)
			end := r.NewResponse()
			end.Final, end.Empty = true, true
			_ = r.Respond(end)
		}},
		{name: "parameters", answer: func(r *infer.Request) {
			resp := r.NewResponse()
			resp.Parameters = append(resp.Parameters,
				infer.Parameter{Name: "s", Kind: infer.StringParameter, Text: "an example"},
				infer.Parameter{Name: "i", Kind: infer.IntParameter, Int: -42},
				infer.Parameter{Name: "b", Kind: infer.BoolParameter},
				infer.Parameter{Name: "d", Kind: infer.FloatParameter, Float: 123.123},
				infer.Parameter{Name: "u", Kind: infer.UintParameter, Uint: 1 << 63},
				infer.Parameter{Name: "bad", Kind: infer.StringParameter, Text: "\xff"})
			resp.AddOutput("OUTPUT0", tensor.Bytes, []int64{0}, nil, nil)
			resp.Final = true
			_ = r.Respond(resp)
		}},
	}
}

// repeat sends as many responses as the first byte says, and then an empty final one.
func repeat(r *infer.Request) {
	for i := range int(r.Inputs[0].Data[0]) {
		resp := r.NewResponse()
		resp.AddOutput("OUT", tensor.Uint8, []int64{1}, []byte{byte(i)}, nil)
		if r.Respond(resp) != nil {
			return
		}
	}
	end := r.NewResponse()
	end.Final, end.Empty = true, true
	_ = r.Respond(end)
}

func stringParam(s string) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_StringParam{StringParam: s}}
}

func intParam(n int64) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_Int64Param{Int64Param: n}}
}

func boolParam(b bool) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_BoolParam{BoolParam: b}}
}

func TestModelInferIdentity(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	for _, tt := range []struct {
		name  string
		sizes []int // bytes of the inputs
		opts  []grpc.CallOption
	}{
		{name: "B060 one small", sizes: []int{64}},
		{name: "empty", sizes: []int{0}},
		{name: "just below and above the copy limit", sizes: []int{tieAt - 1, tieAt, tieAt + 1}},
		{name: "over one frame", sizes: []int{100_000}},
		{name: "small, large, small", sizes: []int{8, 3 << 20, 12}},
		{name: "gzip", sizes: []int{3 << 20}, opts: []grpc.CallOption{grpc.UseCompressor(gzip.Name)}},
		{name: "deflate", sizes: []int{3 << 20}, opts: []grpc.CallOption{grpc.UseCompressor("deflate")}},
		{name: "B070 20 MiB, over grpc-go's own limit of 4", sizes: []int{20 << 20}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := &inferencepb.ModelInferRequest{ModelName: "id", Id: "7"}
			for i, n := range tt.sizes {
				raw := bytes.Repeat([]byte{byte(i + 1)}, n)
				for j := range raw {
					raw[j] += byte(j / 251)
				}
				in.Inputs = append(in.Inputs, &inferencepb.ModelInferRequest_InferInputTensor{
					Name: "INPUT0", Datatype: "UINT8", Shape: []int64{1, int64(n)}})
				in.RawInputContents = append(in.RawInputContents, raw)
			}
			out, err := c.ModelInfer(t.Context(), in, tt.opts...)
			if err != nil {
				t.Fatal(err)
			}
			if out.GetModelName() != "id" || out.GetModelVersion() != "1" || out.GetId() != "7" ||
				len(out.GetOutputs()) != len(tt.sizes) {
				t.Fatalf("answer %v %v %v with %d outputs", out.GetModelName(), out.GetModelVersion(), out.GetId(),
					len(out.GetOutputs()))
			}
			for i, n := range tt.sizes {
				o := out.GetOutputs()[i]
				if o.GetDatatype() != "UINT8" || o.GetShape()[1] != int64(n) ||
					!bytes.Equal(out.GetRawOutputContents()[i], in.GetRawInputContents()[i]) {
					t.Errorf("output %d: %v differs from its input", i, o)
				}
			}
		})
	}
}

func TestModelInferErrors(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	raw16 := make([]byte, 64)
	ints := &inferencepb.InferTensorContents{IntContents: make([]int32, 16)}
	floats := &inferencepb.InferTensorContents{Fp32Contents: make([]float32, 16)}
	typed := func(
		dt string, contents *inferencepb.InferTensorContents,
	) *inferencepb.ModelInferRequest_InferInputTensor {
		return &inferencepb.ModelInferRequest_InferInputTensor{Name: "INPUT0", Datatype: dt, Shape: []int64{1, 16},
			Contents: contents}
	}
	for _, tt := range []struct {
		name string
		in   *inferencepb.ModelInferRequest
		code codes.Code
		text string
	}{
		{name: "unknown model", in: &inferencepb.ModelInferRequest{ModelName: "nope"},
			code: codes.NotFound, text: "Request for unknown model: 'nope' is not found"},
		{name: "unknown version", in: &inferencepb.ModelInferRequest{ModelName: "id", ModelVersion: "9"},
			code: codes.NotFound, text: "Request for unknown model: 'id' version 9 is not found"},
		{name: "bad version", in: &inferencepb.ModelInferRequest{ModelName: "id", ModelVersion: "abc"},
			code: codes.InvalidArgument,
			text: "failed to get model version from specified version string 'abc' (details: stol), version should " +
				"be an integral value > 0"},
		{name: "version -1", in: &inferencepb.ModelInferRequest{ModelName: "id", ModelVersion: "-1"},
			code: codes.InvalidArgument,
			text: "invalid model version specified '-1' , version should be an integral value > 0"},
		{name: "no model name", in: &inferencepb.ModelInferRequest{},
			code: codes.NotFound, text: "Request for unknown model: '' is not found"},
		{name: "FP16 typed contents", in: &inferencepb.ModelInferRequest{ModelName: "id_FP16",
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{typed("FP16", floats)}},
			code: codes.InvalidArgument,
			text: "unexpected explicit tensor data for input tensor 'INPUT0' for model 'id_FP16' of type 'FP32', " +
				"expected datatype 'FP16'"},
		{name: "A17 typed contents of the wrong field", in: &inferencepb.ModelInferRequest{ModelName: "add_sub",
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{typed("INT32", floats)}},
			code: codes.InvalidArgument,
			text: "unexpected explicit tensor data for input tensor 'INPUT0' for model 'add_sub' of type 'FP32', " +
				"expected datatype 'INT32'"},
		{name: "A17 B060 raw and typed", in: &inferencepb.ModelInferRequest{ModelName: "add_sub",
			RawInputContents: [][]byte{raw16},
			Inputs:           []*inferencepb.ModelInferRequest_InferInputTensor{typed("INT32", ints)}},
			code: codes.InvalidArgument,
			text: "contents field must not be specified when using raw_input_contents for 'INPUT0' for model " +
				"'add_sub'"},
		{name: "no contents", in: &inferencepb.ModelInferRequest{ModelName: "add_sub",
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{typed("INT32", nil)}},
			code: codes.InvalidArgument,
			text: "unable to find data for input tensor 'INPUT0' for model 'add_sub' in request."},
		{name: "A17 surplus raw contents", in: &inferencepb.ModelInferRequest{ModelName: "add_sub",
			RawInputContents: [][]byte{raw16, raw16},
			Inputs:           []*inferencepb.ModelInferRequest_InferInputTensor{typed("INT32", nil)}},
			code: codes.InvalidArgument,
			text: "raw_input_contents has 2 entries but only 1 inputs for model 'add_sub' take one; send one entry " +
				"per input, in their order"},
		{name: "B048 reserved parameter", in: &inferencepb.ModelInferRequest{ModelName: "id",
			Parameters: map[string]*inferencepb.InferParameter{"triton_x": intParam(1)}}, code: codes.InvalidArgument,
			text: "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys " +
				"starting with 'triton_' are allowed: triton_enable_empty_final_response"},
		{name: "sequence_id of the wrong type", in: &inferencepb.ModelInferRequest{ModelName: "id",
			Parameters: map[string]*inferencepb.InferParameter{"sequence_id": boolParam(true)}},
			code: codes.InvalidArgument,
			text: "invalid value type for 'sequence_id' parameter, expected int64_param or string_param."},
		{name: "shared memory input", in: &inferencepb.ModelInferRequest{ModelName: "id",
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "INPUT0", Datatype: "FP32",
				Parameters: map[string]*inferencepb.InferParameter{"shared_memory_region": stringParam("none"),
					"shared_memory_byte_size": intParam(4)}}}},
			code: codes.NotFound, text: "Unable to find shared memory region: 'none'"},
		{name: "classification of 0", in: &inferencepb.ModelInferRequest{ModelName: "id",
			Outputs: []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "OUTPUT0",
				Parameters: map[string]*inferencepb.InferParameter{"classification": intParam(0)}}}},
			code: codes.InvalidArgument, text: "invalid value for 'classification' parameter, expected > 0"},
		{name: "classification of BYTES", in: &inferencepb.ModelInferRequest{ModelName: "id",
			RawInputContents: [][]byte{{0, 0, 0, 0}},
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "INPUT0", Datatype: "BYTES",
				Shape: []int64{1}}},
			Outputs: []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "OUTPUT0",
				Parameters: map[string]*inferencepb.InferParameter{"classification": intParam(1)}}}},
			code: codes.InvalidArgument, text: "class result not available for output due to unsupported type 'BYTES'"},
		{name: "B059 decoupled model", in: &inferencepb.ModelInferRequest{ModelName: "repeat",
			RawInputContents: [][]byte{{2}},
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "IN", Datatype: "UINT8",
				Shape: []int64{1}}}},
			code: codes.Unimplemented, text: "ModelInfer RPC doesn't support models with decoupled transaction policy"},
		{name: "the model's error", in: &inferencepb.ModelInferRequest{ModelName: "fails"}, code: codes.Internal,
			text: "my error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := c.ModelInfer(t.Context(), tt.in)
			st := grpcstatus.Convert(err)
			if st.Code() != tt.code || st.Message() != tt.text {
				t.Errorf("ModelInfer = %v\n%v: %s\nwant\n%v: %s", out, st.Code(), st.Message(), tt.code, tt.text)
			}
		})
	}
}

func TestModelInferTypedContents(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	for _, tt := range []struct {
		datatype string
		contents *inferencepb.InferTensorContents
		want     []byte
	}{
		{"BOOL", &inferencepb.InferTensorContents{BoolContents: []bool{true, false, true}}, []byte{1, 0, 1}},
		{"INT8", &inferencepb.InferTensorContents{IntContents: []int32{-1, 2, 300}}, []byte{255, 2, 44}},
		{"INT16", &inferencepb.InferTensorContents{IntContents: []int32{-2}}, []byte{254, 255}},
		{"INT32", &inferencepb.InferTensorContents{IntContents: []int32{-2, 1}},
			[]byte{254, 255, 255, 255, 1, 0, 0, 0}},
		{"INT64", &inferencepb.InferTensorContents{Int64Contents: []int64{-2}},
			[]byte{254, 255, 255, 255, 255, 255, 255, 255}},
		{"UINT8", &inferencepb.InferTensorContents{UintContents: []uint32{200, 1}}, []byte{200, 1}},
		{"UINT16", &inferencepb.InferTensorContents{UintContents: []uint32{0x1234}}, []byte{0x34, 0x12}},
		{"UINT32", &inferencepb.InferTensorContents{UintContents: []uint32{0xfffffffe}}, []byte{254, 255, 255, 255}},
		{"UINT64", &inferencepb.InferTensorContents{Uint64Contents: []uint64{1 << 63}},
			[]byte{0, 0, 0, 0, 0, 0, 0, 128}},
		{"FP32", &inferencepb.InferTensorContents{Fp32Contents: []float32{1, -0.5}},
			[]byte{0, 0, 128, 63, 0, 0, 0, 191}},
		{"FP64", &inferencepb.InferTensorContents{Fp64Contents: []float64{1}}, []byte{0, 0, 0, 0, 0, 0, 240, 63}},
		{"BYTES", &inferencepb.InferTensorContents{BytesContents: [][]byte{[]byte("a\x00"), nil}},
			[]byte{2, 0, 0, 0, 'a', 0, 0, 0, 0, 0}},
		{"FP32", &inferencepb.InferTensorContents{}, nil},
	} {
		t.Run(tt.datatype, func(t *testing.T) {
			out, err := c.ModelInfer(t.Context(), &inferencepb.ModelInferRequest{ModelName: "id",
				Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "INPUT0", Datatype: tt.datatype,
					Shape: []int64{1}, Contents: tt.contents}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := out.GetRawOutputContents()[0]; !bytes.Equal(got, tt.want) {
				t.Errorf("data %v, want %v", got, tt.want)
			}
		})
	}
}

func TestModelInferRequestFields(t *testing.T) {
	e := newFakeEngine(testModels()...)
	type fields struct {
		id, name    string
		version     int64
		priority    uint64
		timeout     time.Duration
		correlation infer.CorrelationID
		flags       infer.Flags
		parameters  map[string]infer.Parameter
		outputs     []infer.RequestedOutput
	}
	var got fields
	e.seen = func(r *infer.Request) {
		got = fields{id: r.ID, name: r.ModelName, version: r.Version, priority: r.Priority, timeout: r.Timeout,
			correlation: r.Correlation, flags: r.Flags, parameters: map[string]infer.Parameter{}}
		for _, p := range r.Parameters {
			got.parameters[p.Name] = p
		}
		got.outputs = append(got.outputs, r.Outputs...)
		if r.Times.Arrived == 0 {
			t.Error("Times.Arrived is not set")
		}
		got.id = string([]byte(got.id)) // the request's strings do not outlive it
	}
	conn, _ := start(t, e, nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	_, err := c.ModelInfer(t.Context(), &inferencepb.ModelInferRequest{ModelName: "id", ModelVersion: "1", Id: "é1",
		Parameters: map[string]*inferencepb.InferParameter{
			"sequence_id": intParam(42), "sequence_start": boolParam(true), "sequence_end": boolParam(false),
			"priority": intParam(3), "timeout": intParam(1500), "custom": stringParam("x"),
			"triton_enable_empty_final_response": boolParam(true),
		},
		Outputs: []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "OUTPUT0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.id != "é1" || got.version != 1 || got.priority != 3 || got.timeout != 1500*time.Microsecond ||
		got.correlation.Number != 42 || got.flags != infer.SequenceStart || len(got.parameters) != 1 ||
		len(got.outputs) != 1 {
		t.Errorf("the engine saw %+v", got)
	}
}

func TestModelInferClassification(t *testing.T) {
	e := newFakeEngine(testModels()...)
	unloaded := *e.models["classes"]
	unloaded.name, unloaded.answer = "unloaded", func(r *infer.Request) {
		delete(e.models, "unloaded") // the request under way is answered all the same
		identity(r)
	}
	e.models["unloaded"] = &unloaded
	conn, _ := start(t, e, nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	values := make([]float32, 16)
	for i := range values {
		values[i] = float32((i * 7) % 16)
	}
	for _, tt := range []struct {
		model string
		shape []int64
		want  string
	}{
		{"classes", []int64{1, 2}, "\x12\x00\x00\x0015.000000:9:labelj\x12\x00\x00\x0014.000000:2:labelc"},
		{"id", []int64{2}, "\x0b\x00\x00\x0015.000000:9\x0b\x00\x00\x0014.000000:2"},
		{"unloaded", []int64{1, 2}, "\x12\x00\x00\x0015.000000:9:labelj\x12\x00\x00\x0014.000000:2:labelc"},
	} {
		t.Run(tt.model, func(t *testing.T) {
			out, err := c.ModelInfer(t.Context(), &inferencepb.ModelInferRequest{ModelName: tt.model,
				Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "INPUT0", Datatype: "FP32",
					Shape:    []int64{1, 16},
					Contents: &inferencepb.InferTensorContents{Fp32Contents: values}}},
				Outputs: []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "OUTPUT0",
					Parameters: map[string]*inferencepb.InferParameter{"classification": intParam(2)}}}})
			if err != nil {
				t.Fatal(err)
			}
			o := out.GetOutputs()[0]
			got := string(out.GetRawOutputContents()[0])
			if o.GetDatatype() != "BYTES" || len(o.GetShape()) != len(tt.shape) || got != tt.want {
				t.Errorf("classes %v %q, want shape %v %q", o, got, tt.shape, tt.want)
			}
		})
	}
}

func TestModelInferResponseParameters(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	out, err := c.ModelInfer(t.Context(), &inferencepb.ModelInferRequest{ModelName: "parameters"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*inferencepb.InferParameter{
		"s": stringParam("an example"), "i": intParam(-42), "b": boolParam(false),
		"d":   {ParameterChoice: &inferencepb.InferParameter_DoubleParam{DoubleParam: 123.123}},
		"u":   {ParameterChoice: &inferencepb.InferParameter_Uint64Param{Uint64Param: 1 << 63}},
		"bad": stringParam("\uFFFD"),
	}
	for name, p := range want {
		if got := out.GetParameters()[name]; !proto.Equal(got, p) {
			t.Errorf("parameter %s = %v, want %v", name, got, p)
		}
	}
	if len(out.GetRawOutputContents()) != 1 || len(out.GetOutputs()[0].GetShape()) != 1 {
		t.Errorf("an empty output came as %v", out)
	}
}

func TestModelInferTwoSteps(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	out, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelInfer(t.Context(),
		&inferencepb.ModelInferRequest{ModelName: "two_steps"})
	if err != nil || !bytes.Equal(out.GetRawOutputContents()[0], []byte{7}) {
		t.Errorf("ModelInfer = %v, %v; want the outputs sent before the final response", out, err)
	}
}

func TestModelInferCancel_C056(t *testing.T) {
	t.Run("B072 unary", func(t *testing.T) {
		e := newFakeEngine()
		came, left := make(chan struct{}), make(chan struct{})
		e.models["never"] = &served{name: "never", answer: func(r *infer.Request) {
			close(came)
			<-r.Done()
			close(left)
		}}
		conn, _ := start(t, e, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-came; cancel() }()
		_, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx,
			&inferencepb.ModelInferRequest{ModelName: "never"})
		if grpcstatus.Code(err) != codes.Canceled {
			t.Errorf("ModelInfer = %v, want Canceled", err)
		}
		<-left
	})
}

func TestModelInferDeadline(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx,
		&inferencepb.ModelInferRequest{ModelName: "never"})
	if grpcstatus.Code(err) != codes.DeadlineExceeded {
		t.Errorf("ModelInfer = %v, want DeadlineExceeded", err)
	}
}

func TestCompressedMessagesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	conn, _ := start(t, newFakeEngine(testModels()...), func(o *Options) { o.MaxReceiveBytes = 100_000 })
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	for _, encoding := range []string{"deflate", gzip.Name} {
		for size, want := range map[int]codes.Code{90_000: codes.OK, 110_000: codes.ResourceExhausted,
			10 << 20: codes.ResourceExhausted} {
			in := &inferencepb.ModelInferRequest{ModelName: "id", RawInputContents: [][]byte{make([]byte, size)},
				Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{fp32(size / 4)}}
			if _, err := c.ModelInfer(t.Context(), in, grpc.UseCompressor(encoding)); grpcstatus.Code(err) != want {
				t.Errorf("%d bytes by %s: %v, want %v", size, encoding, err, want)
			}
		}
	}
}

// A unary request to a decoupled model does not reach the engine, where it would count as a failure.
func TestUnaryRequestsToDecoupledModelsCountNothing_I011(t *testing.T) {
	e := newFakeEngine(testModels()...)
	var seen atomic.Int32
	e.seen = func(*infer.Request) { seen.Add(1) }
	conn, _ := start(t, e, nil)
	_, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelInfer(t.Context(), one("repeat", "1", 1, nil))
	if grpcstatus.Code(err) != codes.Unimplemented || seen.Load() != 0 {
		t.Errorf("ModelInfer = %v with %d requests to the engine; want Unimplemented with none", err, seen.Load())
	}
}
