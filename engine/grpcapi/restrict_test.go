package grpcapi

import (
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/restrict"
)

// Every method of the services belongs to a group, so that restricting a group covers all its methods.
func TestMethodGroups_B079(t *testing.T) {
	methods := inferencepb.File_grpc_service_proto.Services().Get(0).Methods()
	for i := range methods.Len() {
		if name := string(methods.Get(i).Name()); methodGroup("/"+inferenceService+"/"+name) == restrict.Unknown {
			t.Errorf("%s is in no group", name)
		}
	}
	for method, want := range map[string]restrict.Group{
		"ModelStreamInfer": restrict.Inference, "RepositoryModelLoad": restrict.ModelRepository,
		"CudaSharedMemoryRegister": restrict.SharedMemory,
		"LogSettings":              restrict.Logging, "ModelConfig": restrict.ModelConfig,
		"ModelMetadata": restrict.Metadata,
		"Nothing":       restrict.Unknown,
	} {
		if got := methodGroup("/" + inferenceService + "/" + method); got != want {
			t.Errorf("%s is in %v, want %v", method, got, want)
		}
	}
	if got := methodGroup("/" + healthService + "/Check"); got != restrict.Health {
		t.Errorf("the health service is in %v", got)
	}
}

func TestRestrictedProtocol_B079(t *testing.T) {
	rules := &restrict.Rules{}
	if err := rules.Add("model-repository,inference:key=secret", RestrictedPrefix); err != nil {
		t.Fatal(err)
	}
	conn, _ := start(t, newFakeEngine(testModels()...), func(o *Options) { o.Restricted = rules })
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	with := metadata.AppendToOutgoingContext(t.Context(), "triton-grpc-protocol-key", "secret")
	wrong := metadata.AppendToOutgoingContext(t.Context(), "triton-grpc-protocol-key", "Secret", "key", "secret")
	refused := func(what string, err error) {
		t.Helper()
		if st := grpcstatus.Convert(err); st.Code() != codes.Unavailable ||
			st.Message() != "This protocol is restricted, expecting header 'triton-grpc-protocol-key'" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.ServerLive(t.Context(), &inferencepb.ServerLiveRequest{}); err != nil {
		t.Errorf("another group: %v", err)
	}
	_, err := c.RepositoryIndex(t.Context(), &inferencepb.RepositoryIndexRequest{})
	refused("no header", err)
	_, err = c.RepositoryIndex(wrong, &inferencepb.RepositoryIndexRequest{})
	refused("wrong value", err)
	_, err = c.ModelInfer(t.Context(), one("id", "", 1, nil))
	refused("inference", err)
	if stream, err := c.ModelStreamInfer(t.Context()); err != nil {
		t.Error(err)
	} else {
		_, err = stream.Recv()
		refused("stream", err)
	}
	if _, err := c.RepositoryIndex(with, &inferencepb.RepositoryIndexRequest{}); err != nil {
		t.Errorf("with the header: %v", err)
	}
	if _, err := c.ModelInfer(with, one("id", "", 1, nil)); err != nil {
		t.Errorf("inference with the header: %v", err)
	}
}

func TestForwardMetadata_B076(t *testing.T) {
	e := newFakeEngine(testModels()...)
	seen := make(chan string, 1)
	e.seen = func(r *infer.Request) {
		var b strings.Builder
		for _, p := range r.Parameters {
			b.WriteString(p.Name + "=" + p.Text + ";")
		}
		seen <- b.String()
	}
	conn, _ := start(t, e,
		func(o *Options) { o.ForwardMetadata = regexp.MustCompile("(?i)PREFIX_|priority|:|content-type|grpc") })
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "prefix_a", "1", "other", "2")
	const want = "mine=x;prefix_a=1;"
	own := map[string]*inferencepb.InferParameter{
		"mine": {ParameterChoice: &inferencepb.InferParameter_StringParam{StringParam: "x"}}}
	if _, err := c.ModelInfer(ctx, one("id", "", 1, own)); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != want {
		t.Errorf("the model gets %q, want %q", got, want)
	}
	stream, err := c.ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(one("id", "", 1, own)); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != want {
		t.Errorf("by a stream the model gets %q, want %q", got, want)
	}
	_ = stream.CloseSend()
	_, err = c.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "priority", "1"), one("id", "", 1, nil))
	if st := grpcstatus.Convert(err); st.Code() != codes.InvalidArgument ||
		st.Message() != "Header 'priority' is reserved for Triton usage and cannot be forwarded." {
		t.Errorf("reserved metadata: %v", err)
	}
}
