package grpcapi

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"nereid/engine"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// served is a fake model: it answers with its inputs, INPUT<i> as OUTPUT<i>, on another goroutine.
type served struct {
	name      string
	decoupled bool
	batch     int32
	labels    []string
	answer    func(r *infer.Request) // nil: identity
	refuse    error                  // not nil: requests are not admitted
}

func (m *served) Name() string           { return m.name }
func (m *served) Version() int64         { return 1 }
func (m *served) VersionText() string    { return "1" }
func (m *served) Decoupled() bool        { return m.decoupled }
func (m *served) Batched() bool          { return m.batch > 0 }
func (m *served) Labels(string) []string { return m.labels }

// fakeEngine serves models by name, and counts the requests that hold memory.
type fakeEngine struct {
	regions *shm.Registry // nil: none
	models  map[string]*served
	ready   atomic.Bool

	loaded          map[string]engine.LoadParameters
	unloaded        string
	dependents      bool
	unloadedVersion int64
	seen            func(r *infer.Request) // nil, or called with each request before it is answered
}

func newFakeEngine(models ...*served) *fakeEngine {
	e := &fakeEngine{regions: shm.New(shm.Options{}), models: map[string]*served{},
		loaded: map[string]engine.LoadParameters{}}
	for _, m := range models {
		e.models[m.name] = m
	}
	e.ready.Store(true)
	return e
}

func (e *fakeEngine) lookup(name string, version int64) (*served, error) {
	m := e.models[name]
	if m == nil {
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' is not found", name)
	}
	if version > 1 {
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' version %d is not found", name,
			version)
	}
	return m, nil
}

func (e *fakeEngine) Infer(_ context.Context, r *infer.Request) error {
	m, err := e.lookup(r.ModelName, r.Version)
	if err != nil {
		return err
	}
	if m.refuse != nil {
		return m.refuse
	}
	if e.seen != nil {
		e.seen(r)
	}
	r.Served = m
	r.Retain()
	go func() {
		defer r.Release()
		if m.answer != nil {
			m.answer(r)
			return
		}
		identity(r)
	}()
	return nil
}

func identity(r *infer.Request) {
	resp := r.NewResponse()
	for i := range r.Inputs {
		in := &r.Inputs[i]
		name := "OUTPUT" + strconv.Itoa(i)
		if !r.Wants(name) {
			continue
		}
		in.Retain()
		resp.AddOutput(name, in.DataType, in.Shape, in.Data, in.Buf)
	}
	resp.Final = true
	_ = r.Respond(resp)
}

func (e *fakeEngine) Live() bool                  { return true }
func (e *fakeEngine) Ready() bool                 { return e.ready.Load() }
func (e *fakeEngine) SharedMemory() *shm.Registry { return e.regions }

func (e *fakeEngine) ServerMetadata() *inferencepb.ServerMetadataResponse {
	return &inferencepb.ServerMetadataResponse{Name: "triton", Version: "2.51.0",
		Extensions: []string{"classification"}}
}

func (e *fakeEngine) ModelReady(name string, version int64) (bool, error) {
	_, err := e.lookup(name, version)
	return err == nil, err
}

func (e *fakeEngine) ModelMetadata(name string, version int64) (*inferencepb.ModelMetadataResponse, error) {
	if _, err := e.lookup(name, version); err != nil {
		return nil, err
	}
	return &inferencepb.ModelMetadataResponse{Name: name, Versions: []string{"1"}}, nil
}

func (e *fakeEngine) ModelConfig(name string, version int64) (*inferencepb.ModelConfig, error) {
	m, err := e.lookup(name, version)
	if err != nil {
		return nil, err
	}
	return &inferencepb.ModelConfig{Name: name, MaxBatchSize: m.batch,
		ModelTransactionPolicy: &inferencepb.ModelTransactionPolicy{Decoupled: m.decoupled}}, nil
}

func (e *fakeEngine) ModelStatistics(name string, version int64) (*inferencepb.ModelStatisticsResponse, error) {
	if _, err := e.lookup(name, version); err != nil && name != "" {
		return nil, status.Errorf(status.InvalidArg, "requested model '%s' is not available", name)
	}
	return &inferencepb.ModelStatisticsResponse{ModelStats: []*inferencepb.ModelStatistics{{Name: name}}}, nil
}

func (e *fakeEngine) RepositoryIndex(ready bool) []*inferencepb.RepositoryIndexResponse_ModelIndex {
	list := []*inferencepb.RepositoryIndexResponse_ModelIndex{{Name: "id", Version: "1", State: "READY"}}
	if !ready {
		list = append(list, &inferencepb.RepositoryIndexResponse_ModelIndex{Name: "other", State: "UNAVAILABLE",
			Reason: "unloaded"})
	}
	return list
}

func (e *fakeEngine) LoadModel(_ context.Context, name string, p engine.LoadParameters) error {
	if name == "nope" {
		return status.Errorf(status.Internal, "failed to load '%s', failed to poll from model repository", name)
	}
	e.loaded[name] = p
	return nil
}

func (e *fakeEngine) UnloadVersion(_ context.Context, name string, version int64) error {
	e.unloaded, e.unloadedVersion = name, version
	return nil
}

func (e *fakeEngine) UnloadModel(_ context.Context, name string, dependents bool) error {
	e.unloaded, e.dependents = name, dependents
	return nil
}

// start serves e on a loopback port until the test ends, and returns a connection to it. change may be nil.
func start(t testing.TB, e Engine, change func(*Options)) (*grpc.ClientConn, *Server) {
	t.Helper()
	o := Options{Engine: e}
	if change != nil {
		change(&o)
	}
	s := newServer(t, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return conn, s
}

func fp32(n int) *inferencepb.ModelInferRequest_InferInputTensor {
	return &inferencepb.ModelInferRequest_InferInputTensor{Name: "INPUT0", Datatype: tensor.FP32.String(),
		Shape: []int64{1, int64(n)}}
}
