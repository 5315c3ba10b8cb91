package httpapi

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"nereid/engine"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// fakeModel is a model of the fake engine. run answers on the caller's goroutine.
type fakeModel struct {
	name      string
	version   int64
	decoupled bool
	labels    []string
	config    *inferencepb.ModelConfig
	run       func(r *infer.Request, m *fakeModel)
}

func (m *fakeModel) Name() string           { return m.name }
func (m *fakeModel) Version() int64         { return m.version }
func (m *fakeModel) VersionText() string    { return "1" }
func (m *fakeModel) Decoupled() bool        { return m.decoupled }
func (m *fakeModel) Batched() bool          { return m.config.GetMaxBatchSize() > 0 }
func (m *fakeModel) Labels(string) []string { return m.labels }

// fakeEngine answers from a table of models. Unlike the real engine it does not check shapes.
type fakeEngine struct {
	regions  *shm.Registry // nil: none
	models   map[string]*fakeModel
	notReady atomic.Bool
	index    []*inferencepb.RepositoryIndexResponse_ModelIndex
	stats    *inferencepb.ModelStatisticsResponse
	admin    func(op, name string) error // load and unload

	mu              sync.Mutex
	loaded          []engine.LoadParameters // guarded by mu, as is the next
	unloadedVersion int64
	dependent       []bool
}

var _ Engine = (*fakeEngine)(nil)

func (e *fakeEngine) find(name string, version int64) (*fakeModel, error) {
	m, ok := e.models[name]
	if !ok {
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' is not found", name)
	}
	if version > 0 && version != m.version {
		return nil, status.Errorf(status.NotFound, "Request for unknown model: '%s' version %d is not found", name,
			version)
	}
	return m, nil
}

func (e *fakeEngine) Infer(_ context.Context, r *infer.Request) error {
	m, err := e.find(r.ModelName, r.Version)
	if err != nil {
		return err
	}
	for i := range r.Inputs {
		for j := range r.Inputs[:i] {
			if r.Inputs[i].Name == r.Inputs[j].Name {
				return status.Errorf(status.InvalidArg, "[request id: <id_unknown>] input '%s' already exists in "+
					"request",
					r.Inputs[i].Name)
			}
		}
	}
	r.Served, r.BatchSize = m, 1
	m.run(r, m)
	return nil
}

func (e *fakeEngine) Live() bool  { return true }
func (e *fakeEngine) Ready() bool { return !e.notReady.Load() }

func (e *fakeEngine) SharedMemory() *shm.Registry { return e.regions }

func (e *fakeEngine) ServerMetadata() *inferencepb.ServerMetadataResponse {
	return &inferencepb.ServerMetadataResponse{Name: "triton", Version: "2.51.0",
		Extensions: []string{"classification", "sequence"}}
}

func (e *fakeEngine) ModelReady(name string, version int64) (bool, error) {
	_, err := e.find(name, version)
	return err == nil, err
}

func (e *fakeEngine) ModelMetadata(name string, version int64) (*inferencepb.ModelMetadataResponse, error) {
	m, err := e.find(name, version)
	if err != nil {
		return nil, err
	}
	meta := &inferencepb.ModelMetadataResponse{Name: name, Versions: []string{"1"}, Platform: "python"}
	for _, in := range m.config.GetInput() {
		meta.Inputs = append(meta.Inputs, &inferencepb.ModelMetadataResponse_TensorMetadata{
			Name: in.GetName(), Datatype: tensor.DataType(in.GetDataType()).String(),
			Shape: append([]int64{-1}, in.GetDims()...),
		})
	}
	for _, out := range m.config.GetOutput() {
		meta.Outputs = append(meta.Outputs, &inferencepb.ModelMetadataResponse_TensorMetadata{
			Name: out.GetName(), Datatype: tensor.DataType(out.GetDataType()).String(),
			Shape: append([]int64{-1}, out.GetDims()...),
		})
	}
	return meta, nil
}

func (e *fakeEngine) ModelConfig(name string, version int64) (*inferencepb.ModelConfig, error) {
	m, err := e.find(name, version)
	if err != nil {
		return nil, err
	}
	return m.config, nil
}

func (e *fakeEngine) ModelStatistics(name string, version int64) (*inferencepb.ModelStatisticsResponse, error) {
	if name != "" {
		if _, err := e.find(name, version); err != nil {
			return nil, status.Errorf(status.InvalidArg, "requested model '%s' is not available", name)
		}
	}
	return e.stats, nil
}

func (e *fakeEngine) RepositoryIndex(ready bool) []*inferencepb.RepositoryIndexResponse_ModelIndex {
	if !ready {
		return e.index
	}
	var list []*inferencepb.RepositoryIndexResponse_ModelIndex
	for _, m := range e.index {
		if m.GetState() == "READY" {
			list = append(list, m)
		}
	}
	return list
}

func (e *fakeEngine) LoadModel(_ context.Context, name string, p engine.LoadParameters) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loaded = append(e.loaded, p)
	if e.admin != nil {
		return e.admin("load", name)
	}
	return nil
}

func (e *fakeEngine) UnloadVersion(_ context.Context, name string, version int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unloadedVersion = version
	if e.admin != nil {
		return e.admin("unload", name)
	}
	return nil
}

func (e *fakeEngine) UnloadModel(_ context.Context, name string, dependents bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dependent = append(e.dependent, dependents)
	if e.admin != nil {
		return e.admin("unload", name)
	}
	return nil
}

// identity answers every INPUT<i> as OUTPUT<i>.
func identity(r *infer.Request, _ *fakeModel) {
	resp := r.NewResponse()
	for i := range r.Inputs {
		in := &r.Inputs[i]
		name := outputNames[min(i, len(outputNames)-1)]
		if r.Wants(name) {
			in.Retain()
			resp.AddOutput(name, in.DataType, in.Shape, in.Data, in.Buf)
		}
	}
	resp.Final = true
	_ = r.Respond(resp)
}

var outputNames = [...]string{"OUTPUT0", "OUTPUT1", "OUTPUT2", "OUTPUT3"}

// addSub answers INPUT0 + INPUT1 and INPUT0 - INPUT1.
func addSub(r *infer.Request, _ *fakeModel) {
	a, b := r.Input("INPUT0"), r.Input("INPUT1")
	if a == nil || b == nil {
		r.Fail(status.New(status.InvalidArg, "both inputs are needed"))
		return
	}
	sum, diff := make([]byte, len(a.Data)), make([]byte, len(a.Data))
	for i := 0; i+4 <= len(a.Data); i += 4 {
		x, y := le.Uint32(a.Data[i:]), le.Uint32(b.Data[i:])
		le.PutUint32(sum[i:], x+y)
		le.PutUint32(diff[i:], x-y)
	}
	resp := r.NewResponse()
	if r.Wants("OUTPUT0") {
		resp.AddOutput("OUTPUT0", a.DataType, a.Shape, sum, nil)
	}
	if r.Wants("OUTPUT1") {
		resp.AddOutput("OUTPUT1", a.DataType, a.Shape, diff, nil)
	}
	resp.Final = true
	_ = r.Respond(resp)
}

// model makes a fake model whose configuration has n inputs and outputs of one type.
func model(name string, dt tensor.DataType, n int, maxBatch int32, dims []int64,
	run func(*infer.Request, *fakeModel)) *fakeModel {
	cfg := &inferencepb.ModelConfig{Name: name, MaxBatchSize: maxBatch}
	for i := range n {
		cfg.Input = append(cfg.Input, &inferencepb.ModelInput{
			Name: "INPUT" + strconv.Itoa(i), DataType: inferencepb.DataType(dt), Dims: dims})
		cfg.Output = append(cfg.Output, &inferencepb.ModelOutput{
			Name: "OUTPUT" + strconv.Itoa(i), DataType: inferencepb.DataType(dt), Dims: dims})
	}
	return &fakeModel{name: name, version: 1, config: cfg, run: run}
}

func newFake() *fakeEngine {
	e := &fakeEngine{regions: shm.New(shm.Options{}), models: map[string]*fakeModel{},
		stats: &inferencepb.ModelStatisticsResponse{
			ModelStats: []*inferencepb.ModelStatistics{{Name: "add_sub", Version: "1",
				InferenceStats: &inferencepb.InferStatistics{}}},
		}}
	for _, m := range []*fakeModel{
		model("add_sub", tensor.Int32, 2, 8, []int64{16}, addSub),
		model("identity_ort", tensor.FP32, 1, 8, []int64{16}, identity),
		model("id_any", tensor.FP32, 1, 0, []int64{-1}, identity),
		model("id_bytes", tensor.Bytes, 1, 0, []int64{1}, identity),
	} {
		e.models[m.name] = m
	}
	multi := model("multi", tensor.FP32, 1, 8, []int64{16}, identity)
	for i := range 16 {
		multi.labels = append(multi.labels, "label"+strconv.Itoa(i))
	}
	e.models["multi"] = multi
	e.models["repeat"] = &fakeModel{name: "repeat", version: 1, decoupled: true,
		config: &inferencepb.ModelConfig{ModelTransactionPolicy: &inferencepb.ModelTransactionPolicy{Decoupled: true}},
		run:    func(*infer.Request, *fakeModel) {}}
	e.models["broken"] = &fakeModel{name: "broken", version: 1, config: multi.config,
		run: func(r *infer.Request, _ *fakeModel) {
			r.Fail(status.New(status.Internal, "my error"))
		}}
	e.models["parameters"] = &fakeModel{name: "parameters", version: 1, run: func(r *infer.Request, _ *fakeModel) {
		resp := r.NewResponse()
		resp.Parameters = append(resp.Parameters,
			infer.Parameter{Name: "param0", Kind: infer.StringParameter, Text: "an example string parameter"},
			infer.Parameter{Name: "param1", Kind: infer.IntParameter, Int: 42},
			infer.Parameter{Name: "param2", Kind: infer.BoolParameter},
			infer.Parameter{Name: "param3", Kind: infer.FloatParameter, Float: 123.123})
		resp.Final = true
		_ = r.Respond(resp)
	}}
	e.models["panic"] = &fakeModel{name: "panic", version: 1, config: multi.config,
		run: func(*infer.Request, *fakeModel) { panic("boom") }}
	return e
}

func floatBits(f float32) uint32 { return math.Float32bits(f) }
