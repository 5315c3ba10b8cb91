package grpcapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// sharedObject makes a memory object under /dev/shm and returns its key and how to read it.
func sharedObject(t *testing.T, content []byte) (key string, now func() []byte) {
	t.Helper()
	key = "/nereid_test_" + rand.Text()
	path := "/dev/shm" + key
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	return key, func() []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func wantStatus(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if st := grpcstatus.Convert(err); st.Code() != code || st.Message() != text {
		t.Errorf("%v: %s\nwant %v: %s", st.Code(), st.Message(), code, text)
	}
}

func TestSharedMemoryControl(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	key, _ := sharedObject(t, make([]byte, 64))
	register := func(name string, offset, size uint64) error {
		_, err := c.SystemSharedMemoryRegister(t.Context(),
			&inferencepb.SystemSharedMemoryRegisterRequest{Name: name, Key: key, Offset: offset, ByteSize: size})
		return err
	}
	t.Run("DV93 a region without a name", func(t *testing.T) {
		wantStatus(t, register("", 1, 8), codes.InvalidArgument,
			"'region name' is necessary to register system shared memory region")
	})
	t.Run("B065 system regions", func(t *testing.T) {
		wantStatus(t, register("a", 8, 16), codes.OK, "")
		wantStatus(t, register("b", 0, 64), codes.OK, "")
		wantStatus(t, register("a", 0, 64), codes.AlreadyExists, "shared memory region 'a' already in manager")
		wantStatus(t, register("c", 1, 64), codes.InvalidArgument,
			"failed to register shared memory region 'c': invalid args")
		wantStatus(t, register("c", math.MaxUint64, 2), codes.InvalidArgument,
			"failed to register shared memory region 'c': invalid args")
		out, err := c.SystemSharedMemoryStatus(t.Context(), &inferencepb.SystemSharedMemoryStatusRequest{})
		if err != nil || len(out.GetRegions()) != 2 {
			t.Fatalf("status = %v, %v", out, err)
		}
		want := &inferencepb.SystemSharedMemoryStatusResponse_RegionStatus{Name: "a", Key: key, Offset: 8, ByteSize: 16}
		if got := out.GetRegions()["a"]; !proto.Equal(got, want) {
			t.Errorf("status has %v, want %v", got, want)
		}
		if out, err = c.SystemSharedMemoryStatus(t.Context(),
			&inferencepb.SystemSharedMemoryStatusRequest{Name: "a"}); err != nil || len(out.GetRegions()) != 1 {
			t.Errorf("status of one = %v, %v", out, err)
		}
		for _, name := range []string{"none", "a", ""} {
			if _, err := c.SystemSharedMemoryUnregister(t.Context(),
				&inferencepb.SystemSharedMemoryUnregisterRequest{Name: name}); err != nil {
				t.Errorf("unregister %q: %v", name, err)
			}
		}
		_, err = c.SystemSharedMemoryStatus(t.Context(), &inferencepb.SystemSharedMemoryStatusRequest{Name: "b"})
		wantStatus(t, err, codes.NotFound, "Unable to find system shared memory region: 'b'")
	})
	t.Run("C10 CUDA without a GPU", func(t *testing.T) {
		_, err := c.CudaSharedMemoryRegister(t.Context(),
			&inferencepb.CudaSharedMemoryRegisterRequest{Name: "g", RawHandle: make([]byte, 64), ByteSize: 64})
		wantStatus(t, err, codes.InvalidArgument,
			"failed to register CUDA shared memory region: 'g', GPUs not supported")
		out, err := c.CudaSharedMemoryStatus(t.Context(), &inferencepb.CudaSharedMemoryStatusRequest{})
		if err != nil || len(out.GetRegions()) != 0 {
			t.Errorf("status = %v, %v; want none", out, err)
		}
		_, err = c.CudaSharedMemoryStatus(t.Context(), &inferencepb.CudaSharedMemoryStatusRequest{Name: "g"})
		wantStatus(t, err, codes.NotFound, "Unable to find cuda shared memory region: 'g'")
		_, err = c.CudaSharedMemoryUnregister(t.Context(), &inferencepb.CudaSharedMemoryUnregisterRequest{Name: "g"})
		wantStatus(t, err, codes.OK, "")
	})
	t.Run("B053 C10 off", func(t *testing.T) {
		e := newFakeEngine()
		e.regions = shm.New(shm.Options{Disabled: true})
		conn, _ := start(t, e, nil)
		c := inferencepb.NewGRPCInferenceServiceClient(conn)
		const text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
		_, err := c.SystemSharedMemoryRegister(t.Context(),
			&inferencepb.SystemSharedMemoryRegisterRequest{Name: "a", Key: key, ByteSize: 64})
		wantStatus(t, err, codes.Unimplemented, text)
		_, err = c.SystemSharedMemoryUnregister(t.Context(), &inferencepb.SystemSharedMemoryUnregisterRequest{})
		wantStatus(t, err, codes.Unimplemented, text)
		_, err = c.CudaSharedMemoryRegister(t.Context(), &inferencepb.CudaSharedMemoryRegisterRequest{Name: "a"})
		wantStatus(t, err, codes.Unimplemented, text)
		_, err = c.CudaSharedMemoryUnregister(t.Context(), &inferencepb.CudaSharedMemoryUnregisterRequest{Name: "a"})
		wantStatus(t, err, codes.Unimplemented, text)
	})
}

// at are the parameters of a tensor in shared memory.
func at(region string, offset, size int64) map[string]*inferencepb.InferParameter {
	return map[string]*inferencepb.InferParameter{"shared_memory_region": stringParam(region),
		"shared_memory_offset": intParam(offset), "shared_memory_byte_size": intParam(size)}
}

func without(params map[string]*inferencepb.InferParameter, name string) map[string]*inferencepb.InferParameter {
	delete(params, name)
	return params
}

func with(params map[string]*inferencepb.InferParameter, name string,
	p *inferencepb.InferParameter) map[string]*inferencepb.InferParameter {
	params[name] = p
	return params
}

// sharing serves the real engine with two regions: "in" of counting bytes, "out" of 0xee.
func sharing(t *testing.T) (c inferencepb.GRPCInferenceServiceClient, input []byte, now func() []byte, reset func()) {
	t.Helper()
	e := realEngine(t)
	conn, _ := start(t, e, nil)
	input = make([]byte, 256)
	for i := range input {
		input[i] = byte(i)
	}
	in, _ := sharedObject(t, input)
	out, now := sharedObject(t, bytes.Repeat([]byte{0xee}, 256))
	for name, key := range map[string]string{"in": in, "out": out} {
		if err := e.SharedMemory().RegisterSystem(name, key, 0, 256, shm.Self); err != nil {
			t.Fatal(err)
		}
	}
	return inferencepb.NewGRPCInferenceServiceClient(conn), input, now, func() {
		if err := os.WriteFile("/dev/shm"+out, bytes.Repeat([]byte{0xee}, 256), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func sharedInput(
	n int, params map[string]*inferencepb.InferParameter,
) []*inferencepb.ModelInferRequest_InferInputTensor {
	in := fp32(n)
	in.Parameters = params
	return []*inferencepb.ModelInferRequest_InferInputTensor{in}
}

func sharedOutput(
	params map[string]*inferencepb.InferParameter,
) []*inferencepb.ModelInferRequest_InferRequestedOutputTensor {
	return []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "OUTPUT0", Parameters: params}}
}

func TestSharedMemoryInfer(t *testing.T) {
	c, input, now, reset := sharing(t)
	untouched := bytes.Repeat([]byte{0xee}, 256)
	mixed := &inferencepb.ModelInferRequest{ModelName: "add_sub", RawInputContents: [][]byte{make([]byte, 64)},
		Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{addSub("INPUT0"), addSub("INPUT1")},
		Outputs: []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{
			{Name: "OUTPUT0"}, {Name: "OUTPUT1", Parameters: at("out", 8, 64)}}}
	mixed.Inputs[0].Parameters = at("in", 4, 64)
	typed := sharedInput(4, at("in", 0, 16))
	typed[0].Contents = &inferencepb.InferTensorContents{Fp32Contents: []float32{1, 2, 3, 4}}
	for _, tt := range []struct {
		name  string
		in    *inferencepb.ModelInferRequest
		raw   [][]byte // of the answer
		wrote int      // where the outputs' memory has changed
		bytes []byte   // and to what
		code  codes.Code
		text  string
	}{
		{name: "B050 input and output", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(16, at("in", 3, 64)), Outputs: sharedOutput(at("out", 5, 64))}, raw: [][]byte{{}},
			wrote: 5, bytes: input[3:67]},
		{name: "B050 input alone", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, at("in", 8, 16))}, raw: [][]byte{input[8:24]}},
		{name: "B050 output alone, in a larger place",
			in: &inferencepb.ModelInferRequest{ModelName: "identity", RawInputContents: [][]byte{input[:16]},
				Inputs: sharedInput(4, nil), Outputs: sharedOutput(at("out", 0, 256))}, raw: [][]byte{{}},
			bytes: input[:16]},
		{name: "B050 the offset is optional", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, without(at("in", 0, 16), "shared_memory_offset"))}, raw: [][]byte{input[:16]}},
		{name: "B050 mixed with raw ones", in: mixed, raw: [][]byte{input[4:68], {}}, wrote: 8, bytes: input[4:68]},
		{name: "C8 the same place", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(16, at("out", 0, 64)), Outputs: sharedOutput(at("out", 32, 64))}, raw: [][]byte{{}}},
		{name: "C7 a place that is too small", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(16, at("in", 0, 64)), Outputs: sharedOutput(at("out", 0, 63))}, code: codes.Internal,
			text: "shared memory size specified with the request for output 'OUTPUT0' (63 bytes) should be at least " +
				"64 bytes to hold the results"},
		{name: "C7 a place without bytes", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(16, at("in", 0, 64)), Outputs: sharedOutput(at("out", 0, 0))},
			code: codes.InvalidArgument, text: "Invalid offset + byte size for shared memory region: 'out'"},
		{name: "C4 a negative offset", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, at("in", -1, 16))},
			code: codes.InvalidArgument, text: "Invalid offset for shared memory region: 'in'"},
		{name: "C4 a negative size", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, at("in", 8, -1))}, code: codes.InvalidArgument,
			text: "Integer overflow detected: byte_size (18446744073709551615) + offset (8) exceeds maximum value " +
				"(18446744073709551615) for region 'in'"},
		{name: "C4 a size behind the region", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, at("in", 250, 16))},
			code: codes.InvalidArgument, text: "Invalid offset + byte size for shared memory region: 'in'"},
		{name: "C4 an output behind the region", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			RawInputContents: [][]byte{input[:16]},
			Inputs:           sharedInput(4, nil), Outputs: sharedOutput(at("out", 256, 0))},
			code: codes.InvalidArgument,
			text: "Invalid offset for shared memory region: 'out'"},
		{name: "B050 an unknown region of an output",
			in: &inferencepb.ModelInferRequest{ModelName: "identity", RawInputContents: [][]byte{input[:16]},
				Inputs: sharedInput(4, nil), Outputs: sharedOutput(at("none", 0, 16))}, code: codes.NotFound,
			text: "Unable to find shared memory region: 'none'"},
		{name: "B050 another size than the shape's",
			in:   &inferencepb.ModelInferRequest{ModelName: "identity", Inputs: sharedInput(4, at("in", 0, 12))},
			code: codes.InvalidArgument,
			text: "[request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model 'identity'. " +
				"Expected 16, got 12"},
		{name: "B050 contents as well", in: &inferencepb.ModelInferRequest{ModelName: "identity", Inputs: typed},
			code: codes.InvalidArgument,
			text: "unexpected 'content' provided when using shared memory for input tensor 'INPUT0' for model " +
				"'identity'"},
		{name: "B050 no size", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, without(at("in", 0, 16), "shared_memory_byte_size"))},
			code: codes.InvalidArgument,
			text: "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for " +
				"tensor 'INPUT0'"},
		{name: "B050 a size without a region", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			RawInputContents: [][]byte{input[:16]},
			Inputs: sharedInput(4, map[string]*inferencepb.InferParameter{
				"shared_memory_byte_size": at("in", 0, 16)["shared_memory_byte_size"]})},
			code: codes.InvalidArgument,
			text: "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for " +
				"tensor 'INPUT0'"},
		{name: "B050 an offset without a region", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			RawInputContents: [][]byte{input[:16]},
			Inputs:           sharedInput(4, nil),
			Outputs:          sharedOutput(without(at("in", 0, 16), "shared_memory_region"))},
			code: codes.InvalidArgument,
			text: "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor " +
				"'OUTPUT0'"},
		{name: "B050 a region that is no string", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, with(at("in", 0, 16), "shared_memory_region", intParam(1)))},
			code: codes.InvalidArgument,
			text: "invalid value type for 'shared_memory_region' parameter for tensor 'INPUT0', expected " +
				"string_param."},
		{name: "B050 an offset that is no int64", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, with(at("in", 0, 16), "shared_memory_offset", stringParam("0")))},
			code: codes.InvalidArgument,
			text: "invalid value type for 'shared_memory_offset' parameter for tensor 'INPUT0', expected " +
				"int64_param."},
		{name: "B050 a size that is no int64", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, with(at("in", 0, 16), "shared_memory_byte_size", boolParam(true)))},
			code: codes.InvalidArgument,
			text: "invalid value type for 'shared_memory_byte_size' parameter for tensor 'INPUT0', expected " +
				"int64_param."},
		{name: "B050 classes as well", in: &inferencepb.ModelInferRequest{ModelName: "identity",
			RawInputContents: [][]byte{input[:16]},
			Inputs:           sharedInput(4, nil),
			Outputs:          sharedOutput(with(at("out", 0, 16), "classification", intParam(1)))},
			code: codes.InvalidArgument,
			text: "output can't set both 'shared_memory_region' and 'classification'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reset()
			out, err := c.ModelInfer(t.Context(), tt.in)
			wantStatus(t, err, tt.code, tt.text)
			if got := out.GetRawOutputContents(); len(got) != len(tt.raw) ||
				!bytes.Equal(bytes.Join(got, []byte("|")), bytes.Join(tt.raw, []byte("|"))) {
				t.Errorf("raw contents %x, want %x", got, tt.raw)
			}
			want := bytes.Clone(untouched)
			copy(want[tt.wrote:], tt.bytes)
			if b := now(); !bytes.Equal(b, want) {
				t.Errorf("the client's memory holds\n%x\nwant\n%x", b, want)
			}
			st := tt.in.GetOutputs()
			if err == nil && len(st) > 0 && (len(out.GetOutputs()) != len(st) ||
				len(out.GetOutputs()[0].GetShape()) == 0) {
				t.Errorf("outputs %v, want name, type and shape of each", out.GetOutputs())
			}
		})
	}
}

func TestSharedMemoryStream(t *testing.T) {
	c, input, now, _ := sharing(t)
	stream, err := c.ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exchange := func(in *inferencepb.ModelInferRequest) *inferencepb.ModelStreamInferResponse {
		if err := stream.Send(in); err != nil {
			t.Fatal(err)
		}
		out, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Run("B050 in a stream", func(t *testing.T) {
		for i := range 8 {
			out := exchange(&inferencepb.ModelInferRequest{ModelName: "identity",
				Inputs: sharedInput(4, at("in", int64(16*i), 16)), Outputs: sharedOutput(at("out", int64(32*i), 16))})
			if raw := out.GetInferResponse().GetRawOutputContents(); out.GetErrorMessage() != "" || len(raw) != 1 ||
				len(raw[0]) != 0 {
				t.Fatalf("answer %v", out)
			}
			if got := now()[32*i:]; !bytes.Equal(got[:16], input[16*i:][:16]) ||
				!bytes.Equal(got[16:32], bytes.Repeat([]byte{0xee}, 16)) {
				t.Errorf("request %d left %x in the client's memory", i, got[:32])
			}
		}
	})
	t.Run("C7 in a stream", func(t *testing.T) {
		out := exchange(&inferencepb.ModelInferRequest{ModelName: "identity", Inputs: sharedInput(4, at("in", 0, 16)),
			Outputs: sharedOutput(at("out", 0, 8))})
		if want := "shared memory size specified with the request for output 'OUTPUT0' (8 bytes) should be at least " +
			"16 bytes to hold the results"; out.GetErrorMessage() != want {
			t.Errorf("answer %v, want the error %s", out, want)
		}
	})
	t.Run("an unknown region in a stream", func(t *testing.T) {
		out := exchange(&inferencepb.ModelInferRequest{ModelName: "identity",
			Inputs: sharedInput(4, at("none", 0, 16))})
		if want := "Unable to find shared memory region: 'none'"; out.GetErrorMessage() != want {
			t.Errorf("answer %v, want the error %s", out, want)
		}
	})
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

// A region is unmapped after the last request that uses it, whatever happens to its name, its object and the client.
func TestSharedMemoryInUse(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	e := newFakeEngine(&served{name: "slow", answer: func(r *infer.Request) {
		entered <- struct{}{}
		<-leave
		resp := r.NewResponse()
		resp.AddOutput("OUTPUT0", tensor.Uint8, []int64{4}, bytes.Clone(r.Inputs[0].Data), nil)
		resp.Final = true
		_ = r.Respond(resp)
	}})
	conn, _ := start(t, e, nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	infer := func(ctx context.Context) error {
		_, err := c.ModelInfer(ctx, &inferencepb.ModelInferRequest{ModelName: "slow",
			Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "INPUT0", Datatype: "UINT8",
				Shape: []int64{4}, Parameters: at("r", 0, 4)}},
			Outputs: sharedOutput(at("r", 4, 4))}, grpc.WaitForReady(true))
		return err
	}
	for _, tt := range []struct {
		name   string
		during func(t *testing.T, path string)
		code   codes.Code
		text   string
		holds  string // the object after, if it can be read
	}{
		{name: "C6 unregistered during a request", holds: "abcdabcd", during: func(t *testing.T, _ string) {
			if err := e.regions.Unregister(shm.System, ""); err != nil {
				t.Error(err)
			}
		}},
		{name: "C6 unlinked during a request", during: func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}},
		{name: "C5 shrunk during a request", code: codes.InvalidArgument, holds: "abcd",
			text: "cannot write 4 bytes at offset 4 of shared memory region 'r': " +
				"it ends before that; the client may have shrunk it after its registration",
			during: func(t *testing.T, path string) {
				if err := os.Truncate(path, 4); err != nil {
					t.Error(err)
				}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, _ := sharedObject(t, []byte("abcdefgh"))
			if err := e.regions.RegisterSystem("r", key, 0, 8, shm.Self); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- infer(t.Context()) }()
			<-entered
			tt.during(t, "/dev/shm"+key)
			leave <- struct{}{}
			wantStatus(t, <-done, tt.code, tt.text)
			b, err := os.ReadFile("/dev/shm" + key)
			if tt.holds != "" && string(b) != tt.holds || tt.holds == "" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the object holds %q, %v; want %q", b, err, tt.holds)
			}
			if err := e.regions.Unregister(shm.System, ""); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("C6 the client leaves during a request", func(t *testing.T) {
		key, now := sharedObject(t, []byte("abcdefgh"))
		if err := e.regions.RegisterSystem("r", key, 0, 8, shm.Self); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- infer(ctx) }()
		<-entered
		cancel()
		if err := <-done; grpcstatus.Code(err) != codes.Canceled {
			t.Errorf("%v, want Canceled", err)
		}
		leave <- struct{}{}
		if got := string(now()); !strings.HasPrefix(got, "abcd") {
			t.Errorf("the object holds %q", got)
		}
	})
}

// FuzzSharedMemoryParameters checks that an input is either the bytes that its parameters name or an error, and that an
// output's slot lies in the region.
func FuzzSharedMemoryParameters(f *testing.F) {
	dir := f.TempDir()
	content := []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,")
	if err := os.WriteFile(dir+"/in", content, 0o600); err != nil {
		f.Fatal(err)
	}
	g := shm.New(shm.Options{Folder: dir})
	f.Cleanup(func() { _ = g.Close() })
	if err := g.RegisterSystem("in", "in", 0, 64, shm.Self); err != nil {
		f.Fatal(err)
	}
	f.Add("in", int64(0), int64(64), uint8(0))
	f.Add("in", int64(-1), int64(1), uint8(0))
	f.Add("in", int64(8), int64(-1), uint8(0))
	f.Add("in", int64(math.MaxInt64), int64(math.MinInt64), uint8(0))
	f.Add("none", int64(0), int64(1), uint8(7))
	f.Add("in", int64(64), int64(0), uint8(1))
	var pool tensor.Pool
	f.Fuzz(func(t *testing.T, region string, offset, size int64, leave uint8) {
		params := at(strings.ToValidUTF8(region, "?"), offset, size)
		for bit, name := range []string{"shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"} {
			if leave&(1<<bit) != 0 {
				delete(params, name)
			}
		}
		b, err := proto.Marshal(&inferencepb.ModelInferRequest{ModelName: "m", Inputs: sharedInput(1, params),
			Outputs: sharedOutput(params)})
		if err != nil {
			t.Fatal(err)
		}
		m := getMessage(&pool, g)
		decodeMessage(t, m, &pool, b)
		if m.err != nil {
			if status.CodeOf(m.err) != status.InvalidArg && status.CodeOf(m.err) != status.NotFound {
				t.Errorf("%v: %v", status.CodeOf(m.err), m.err)
			}
			return
		}
		defer m.r.Release()
		if leave&2 != 0 {
			offset = 0
		}
		if in := &m.r.Inputs[0]; region != "in" || !bytes.Equal(in.Data, content[offset:][:size]) {
			t.Errorf("read %q for %d bytes at %d of %q", in.Data, size, offset, region)
		}
		if s := m.r.Outputs[0].Shared; s == nil || s.Size() != uint64(size) {
			t.Errorf("the output's place is %v", s)
		}
	})
}
