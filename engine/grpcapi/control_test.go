package grpcapi

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
)

func TestControl(t *testing.T) {
	e := newFakeEngine(testModels()...)
	conn, _ := start(t, e, nil)
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	ctx := t.Context()
	type answer struct {
		value any
		err   error
	}
	value := func(v any, err error) answer { return answer{v, err} }
	for _, tt := range []struct {
		name string
		call func() answer
		want any // nil: an error
		code codes.Code
		text string
	}{
		{name: "B057 ServerLive", call: func() answer {
			out, err := c.ServerLive(ctx, &inferencepb.ServerLiveRequest{})
			return value(out.GetLive(), err)
		}, want: true},
		{name: "B057 ServerReady", call: func() answer {
			out, err := c.ServerReady(ctx, &inferencepb.ServerReadyRequest{})
			return value(out.GetReady(), err)
		}, want: true},
		{name: "B057 ModelReady", call: func() answer {
			out, err := c.ModelReady(ctx, &inferencepb.ModelReadyRequest{Name: "id"})
			return value(out.GetReady(), err)
		}, want: true},
		{name: "B057 ModelReady of an unknown model", call: func() answer {
			out, err := c.ModelReady(ctx, &inferencepb.ModelReadyRequest{Name: "nope"})
			return value(out.GetReady(), err)
		}, want: false},
		{name: "B057 ModelReady of version abc", call: func() answer {
			out, err := c.ModelReady(ctx, &inferencepb.ModelReadyRequest{Name: "id", Version: "abc"})
			return value(out, err)
		}, code: codes.InvalidArgument,
			text: "failed to get model version from specified version string 'abc' (details: stol), version should " +
				"be an integral value > 0"},
		{name: "B058 ServerMetadata", call: func() answer {
			out, err := c.ServerMetadata(ctx, &inferencepb.ServerMetadataRequest{})
			return value(out.GetName()+" "+out.GetVersion(), err)
		}, want: "triton 2.51.0"},
		{name: "B058 ModelMetadata", call: func() answer {
			out, err := c.ModelMetadata(ctx, &inferencepb.ModelMetadataRequest{Name: "id"})
			return value(out.GetName(), err)
		}, want: "id"},
		{name: "B058 ModelMetadata of version 9", call: func() answer {
			out, err := c.ModelMetadata(ctx, &inferencepb.ModelMetadataRequest{Name: "id", Version: "9"})
			return value(out, err)
		}, code: codes.NotFound, text: "Request for unknown model: 'id' version 9 is not found"},
		{name: "B058 ModelConfig", call: func() answer {
			out, err := c.ModelConfig(ctx, &inferencepb.ModelConfigRequest{Name: "classes"})
			return value(out.GetConfig().GetMaxBatchSize(), err)
		}, want: int32(8)},
		{name: "B058 ModelConfig of an unknown model", call: func() answer {
			out, err := c.ModelConfig(ctx, &inferencepb.ModelConfigRequest{Name: "nope"})
			return value(out, err)
		}, code: codes.NotFound, text: "Request for unknown model: 'nope' is not found"},
		{name: "B063 ModelStatistics of all", call: func() answer {
			out, err := c.ModelStatistics(ctx, &inferencepb.ModelStatisticsRequest{})
			return value(len(out.GetModelStats()), err)
		}, want: 1},
		{name: "B063 ModelStatistics of an unknown model", call: func() answer {
			out, err := c.ModelStatistics(ctx, &inferencepb.ModelStatisticsRequest{Name: "nope"})
			return value(out, err)
		}, code: codes.InvalidArgument, text: "requested model 'nope' is not available"},
		{name: "B064 RepositoryIndex", call: func() answer {
			out, err := c.RepositoryIndex(ctx, &inferencepb.RepositoryIndexRequest{})
			return value(len(out.GetModels()), err)
		}, want: 2},
		{name: "B064 RepositoryIndex of the ready ones", call: func() answer {
			out, err := c.RepositoryIndex(ctx, &inferencepb.RepositoryIndexRequest{Ready: true})
			return value(len(out.GetModels()), err)
		}, want: 1},
		{name: "B064 RepositoryIndex of another repository", call: func() answer {
			out, err := c.RepositoryIndex(ctx, &inferencepb.RepositoryIndexRequest{RepositoryName: "x"})
			return value(out, err)
		}, code: codes.Unimplemented, text: "'repository_name' specification is not supported"},
		{name: "B064 RepositoryModelLoad of an unknown model", call: func() answer {
			out, err := c.RepositoryModelLoad(ctx, &inferencepb.RepositoryModelLoadRequest{ModelName: "nope"})
			return value(out, err)
		}, code: codes.Internal, text: "failed to load 'nope', failed to poll from model repository"},
		{name: "B064 RepositoryModelLoad with an unknown parameter", call: func() answer {
			out, err := c.RepositoryModelLoad(ctx, &inferencepb.RepositoryModelLoadRequest{ModelName: "id",
				Parameters: map[string]*inferencepb.ModelRepositoryParameter{"x": {}}})
			return value(out, err)
		}, code: codes.InvalidArgument,
			text: "unrecognized load parameter 'x'; known are 'config', 'file:<path>' and 'version'"},
		{name: "B064 RepositoryModelLoad with a config of the wrong type", call: func() answer {
			out, err := c.RepositoryModelLoad(ctx, &inferencepb.RepositoryModelLoadRequest{ModelName: "id",
				Parameters: map[string]*inferencepb.ModelRepositoryParameter{"config": {}}})
			return value(out, err)
		}, code: codes.InvalidArgument, text: "invalid value type for load parameter 'config', expected string_param."},
		{name: "B064 RepositoryModelLoad with a config and a file", call: func() answer {
			_, err := c.RepositoryModelLoad(ctx, &inferencepb.RepositoryModelLoadRequest{ModelName: "id",
				Parameters: map[string]*inferencepb.ModelRepositoryParameter{
					"config": {ParameterChoice: &inferencepb.ModelRepositoryParameter_StringParam{
						StringParam: "{}"}},
					"file:1/model.onnx": {ParameterChoice: &inferencepb.ModelRepositoryParameter_BytesParam{
						BytesParam: []byte{1}}},
				}})
			return value(e.loaded["id"].ConfigJSON+string(e.loaded["id"].Files["1/model.onnx"]), err)
		}, want: "{}\x01"},
		{name: "B064 RepositoryModelUnload of one version", call: func() answer {
			_, err := c.RepositoryModelUnload(ctx, &inferencepb.RepositoryModelUnloadRequest{ModelName: "one",
				Parameters: map[string]*inferencepb.ModelRepositoryParameter{
					"version": {ParameterChoice: &inferencepb.ModelRepositoryParameter_Int64Param{Int64Param: 3}}}})
			return value(e.unloaded == "one" && e.unloadedVersion == 3, err)
		}, want: true},
		{name: "B064 RepositoryModelUnload of no version", call: func() answer {
			_, err := c.RepositoryModelUnload(ctx, &inferencepb.RepositoryModelUnloadRequest{ModelName: "one",
				Parameters: map[string]*inferencepb.ModelRepositoryParameter{
					"version": {ParameterChoice: &inferencepb.ModelRepositoryParameter_StringParam{StringParam: "x"}}}})
			return value(nil, err)
		}, code: codes.InvalidArgument,
			text: "parameter 'version' must be the number of a version, as int64_param or string_param"},
		{name: "B064 RepositoryModelUnload with its dependents", call: func() answer {
			_, err := c.RepositoryModelUnload(ctx, &inferencepb.RepositoryModelUnloadRequest{ModelName: "ens",
				Parameters: map[string]*inferencepb.ModelRepositoryParameter{
					"unload_dependents": {ParameterChoice: &inferencepb.ModelRepositoryParameter_BoolParam{
						BoolParam: true}}}})
			return value(e.unloaded == "ens" && e.dependents, err)
		}, want: true},
		{name: "SystemSharedMemoryStatus", call: func() answer {
			out, err := c.SystemSharedMemoryStatus(ctx, &inferencepb.SystemSharedMemoryStatusRequest{})
			return value(len(out.GetRegions()), err)
		}, want: 0},
		{name: "SystemSharedMemoryStatus of an unknown region", call: func() answer {
			out, err := c.SystemSharedMemoryStatus(ctx, &inferencepb.SystemSharedMemoryStatusRequest{Name: "none"})
			return value(out, err)
		}, code: codes.NotFound, text: "Unable to find system shared memory region: 'none'"},
		{name: "SystemSharedMemoryRegister", call: func() answer {
			out, err := c.SystemSharedMemoryRegister(ctx,
				&inferencepb.SystemSharedMemoryRegisterRequest{Name: "x", Key: "/nereid-no-such-object"})
			return value(out, err)
		}, code: codes.Internal, text: "Unable to open shared memory region: '/nereid-no-such-object'"},
		{name: "TraceSetting", call: func() answer {
			out, err := c.TraceSetting(ctx, &inferencepb.TraceSettingRequest{})
			return value(out, err)
		}, code: codes.Unavailable, text: "the server does not support trace"},
		{name: "LogSettings", call: func() answer {
			out, err := c.LogSettings(ctx, &inferencepb.LogSettingsRequest{})
			return value(out, err)
		}, code: codes.Unavailable, text: "the server does not support dynamic logging"},
		{name: "B068 health of any service", call: func() answer {
			out, err := grpc_health_v1.NewHealthClient(conn).Check(ctx,
				&grpc_health_v1.HealthCheckRequest{Service: "nope"})
			return value(out.GetStatus(), err)
		}, want: grpc_health_v1.HealthCheckResponse_SERVING},
		{name: "B068 health while not ready", call: func() answer {
			e.ready.Store(false)
			defer e.ready.Store(true)
			out, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			return value(out.GetStatus(), err)
		}, want: grpc_health_v1.HealthCheckResponse_NOT_SERVING},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.call()
			if tt.want != nil {
				if got.err != nil || got.value != tt.want {
					t.Errorf("answer %v, %v; want %v", got.value, got.err, tt.want)
				}
				return
			}
			if st := grpcstatus.Convert(got.err); st.Code() != tt.code || st.Message() != tt.text {
				t.Errorf("error %v: %s\nwant  %v: %s", st.Code(), st.Message(), tt.code, tt.text)
			}
		})
	}
}

// garbage is a message that the client sends as it is.
type garbage []byte

type garbageCodec struct{}

func (garbageCodec) Marshal(v any) ([]byte, error) { return v.(garbage), nil }
func (garbageCodec) Unmarshal([]byte, any) error   { return nil }
func (garbageCodec) Name() string                  { return "proto" }

func TestMalformedMessages(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), nil)
	for _, tt := range []struct {
		name, method string
		body         garbage
		code         codes.Code
	}{
		{name: "cut short", method: "ModelInfer", body: garbage{0x0a, 0x05, 'a'}, code: codes.InvalidArgument},
		{name: "field number 0", method: "ModelInfer", body: garbage{0x00, 0x01}, code: codes.InvalidArgument},
		{name: "wire type 7", method: "ModelInfer", body: garbage{0x0f}, code: codes.InvalidArgument},
		{name: "end of a group that is not open", method: "ModelInfer", body: garbage{0x0c},
			code: codes.InvalidArgument},
		{name: "model name is not UTF-8", method: "ModelInfer", body: garbage{0x0a, 0x01, 0xff},
			code: codes.InvalidArgument},
		{name: "unknown fields are skipped", method: "ModelInfer",
			body: garbage{0x0a, 0x02, 'i', 'd', 0xb8, 0x3e, 0x01}, code: codes.OK},
		{name: "metadata request cut short", method: "ModelMetadata", body: garbage{0x0a, 0x05, 'a'},
			code: codes.InvalidArgument},
		{name: "unknown method", method: "Nope", body: garbage{}, code: codes.Unimplemented},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out garbage
			err := conn.Invoke(t.Context(), "/inference.GRPCInferenceService/"+tt.method, tt.body, &out,
				forceCodec(garbageCodec{}))
			if grpcstatus.Code(err) != tt.code {
				t.Errorf("answer %v, want %v", err, tt.code)
			}
		})
	}
}

func TestAuthorize(t *testing.T) {
	t.Run("B078 token in the metadata", func(t *testing.T) {
		var asked []string
		conn, _ := start(t, newFakeEngine(testModels()...), func(o *Options) {
			o.Authorize = func(ctx context.Context, method string) error {
				asked = append(asked, method)
				if v := metadata.ValueFromIncomingContext(ctx, "authorization"); len(v) == 1 &&
					v[0] == "Bearer secret" {
					return nil
				}
				return grpcstatus.Error(codes.Unauthenticated, "token missing")
			}
		})
		c := inferencepb.NewGRPCInferenceServiceClient(conn)
		_, err := c.ServerLive(t.Context(), &inferencepb.ServerLiveRequest{})
		if grpcstatus.Code(err) != codes.Unauthenticated {
			t.Errorf("without a token: %v, want Unauthenticated", err)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret")
		if _, err := c.ModelInfer(ctx, &inferencepb.ModelInferRequest{ModelName: "id"}); err != nil {
			t.Errorf("with the token: %v", err)
		}
		if len(asked) != 2 || asked[0] != inferencepb.GRPCInferenceService_ServerLive_FullMethodName ||
			asked[1] != inferencepb.GRPCInferenceService_ModelInfer_FullMethodName {
			t.Errorf("asked for %v", asked)
		}
	})
}

func TestMessageOverTheLimit(t *testing.T) {
	conn, _ := start(t, newFakeEngine(testModels()...), func(o *Options) { o.MaxReceiveBytes = 1000 })
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	in := fp32(500)
	_, err := c.ModelInfer(t.Context(), &inferencepb.ModelInferRequest{ModelName: "id",
		Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{in}, RawInputContents: [][]byte{make([]byte, 2000)}})
	if grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("ModelInfer = %v, want ResourceExhausted", err)
	}
	if _, err := c.ServerLive(t.Context(), &inferencepb.ServerLiveRequest{}); err != nil {
		t.Errorf("the connection is not usable after: %v", err)
	}
}

func TestAPanicFailsOnlyItsCall(t *testing.T) {
	e := newFakeEngine(testModels()...)
	e.seen = func(*infer.Request) { panic("bug") }
	conn, _ := start(t, e, func(o *Options) { o.Log = slog.New(slog.DiscardHandler) })
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	_, err := c.ModelInfer(t.Context(), &inferencepb.ModelInferRequest{ModelName: "id"})
	if grpcstatus.Code(err) != codes.Internal {
		t.Errorf("ModelInfer = %v, want Internal", err)
	}
	for _, model := range []string{"id", "repeat"} { // the second is decoupled
		stream, err := c.ModelStreamInfer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&inferencepb.ModelInferRequest{ModelName: model}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); grpcstatus.Code(err) != codes.Internal {
			t.Errorf("ModelStreamInfer of %s = %v, want Internal", model, err)
		}
	}
	if _, err := c.ServerLive(t.Context(), &inferencepb.ServerLiveRequest{}); err != nil {
		t.Errorf("the server is gone: %v", err)
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New without an engine passes")
	}
	if _, err := New(Options{Engine: newFakeEngine(), MaxReceiveBytes: -1}); err == nil {
		t.Error("New with a negative limit passes")
	}
}

func TestShutdownCancelsAfterItsTime(t *testing.T) {
	e := newFakeEngine()
	came := make(chan struct{})
	e.models["never"] = &served{name: "never", answer: func(r *infer.Request) { close(came); <-r.Done() }}
	conn, s := start(t, e, nil)
	failed := make(chan error, 1)
	go func() {
		_, err := inferencepb.NewGRPCInferenceServiceClient(conn).ModelInfer(context.Background(),
			&inferencepb.ModelInferRequest{ModelName: "never"})
		failed <- err
	}()
	<-came
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v, want context.Canceled", err)
	}
	if err := <-failed; err == nil {
		t.Error("the call passes")
	}
}
