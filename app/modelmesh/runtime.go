package modelmesh

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nereid/app/console/code"
	"nereid/app/console/folders"
	"nereid/app/console/imports/staging"
	"nereid/app/modelmesh/mmesh"
	"nereid/engine/lifecycle"
	"nereid/engine/repo"
)

// Engine is what a Runtime needs of engine.Engine.
type Engine interface {
	Live() bool
	Model(name string) (lifecycle.ModelStatus, bool)
	Reload(ctx context.Context, name string) error
	Remove(name string)
}

// Options of a Runtime.
type Options struct {
	Folder    string // for models; what an earlier process left there is deleted
	AllowCode bool   // models may run code when they are loaded
	// Repositories are those of other models.
	Repositories []string
	Capacity     int64         // bytes of memory for models
	LoadThreads  int           // loads at the same time
	LoadTimeout  time.Duration // 0: none
	Version      string
}

// Runtime implements mmesh.ModelRuntime. Its methods may be called concurrently.
type Runtime struct {
	mmesh.UnimplementedModelRuntimeServer
	o      Options
	engine Engine

	mu    sync.Mutex
	names map[string]*sync.Mutex // held while a model of that name changes
}

// Open makes a Runtime and its folders. The engine has loaded no model yet; see Serve.
func Open(o Options) (*Runtime, error) {
	if err := os.RemoveAll(o.Folder); err != nil {
		return nil, err
	}
	r := &Runtime{o: o, names: map[string]*sync.Mutex{}}
	for _, folder := range []string{r.Repository(), r.work()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Serve gives the engine, when it has loaded its models. The methods of the service are called afterwards.
func (r *Runtime) Serve(e Engine) { r.engine = e }

// Repository is the folder of the models, for the engine.
func (r *Runtime) Repository() string { return filepath.Join(r.o.Folder, "models") }

func (r *Runtime) work() string { return filepath.Join(r.o.Folder, "work") }

// lock keeps other calls for a model waiting until the returned function is called.
func (r *Runtime) lock(name string) func() {
	r.mu.Lock()
	m := r.names[name]
	if m == nil {
		m = &sync.Mutex{}
		r.names[name] = m
	}
	r.mu.Unlock()
	m.Lock()
	return m.Unlock
}

// LoadModel implements mmesh.ModelRuntime. InvalidArgument: nothing was loaded.
func (r *Runtime) LoadModel(ctx context.Context, q *mmesh.LoadModelRequest) (*mmesh.LoadModelResponse, error) {
	if err := repo.CheckName(q.ModelId); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	defer r.lock(q.ModelId)()
	place := filepath.Join(r.Repository(), q.ModelId)
	if _, err := os.Lstat(place); err == nil {
		size, err := r.size(q.ModelId)
		return &mmesh.LoadModelResponse{SizeInBytes: size}, err // it is loaded already
	}
	if other := r.conflict(q.ModelId); other != "" {
		return nil, status.Errorf(codes.InvalidArgument, "%s has a model of the name %s, which is not ModelMesh's",
			other, q.ModelId)
	}
	if err := r.place(q.ModelPath, q.ModelId, place); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := r.engine.Reload(ctx, q.ModelId); err != nil {
		code := codes.Internal
		if ctx.Err() != nil {
			code = status.FromContextError(ctx.Err()).Code()
		}
		err = errors.Join(err, r.remove(context.WithoutCancel(ctx), q.ModelId))
		return nil, status.Error(code, err.Error())
	}
	size, err := r.size(q.ModelId)
	return &mmesh.LoadModelResponse{SizeInBytes: size}, err
}

// conflict returns another repository that has a model of a name; "": there is none.
func (r *Runtime) conflict(name string) string {
	for _, root := range r.o.Repositories {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			return root
		}
	}
	if st, _ := r.engine.Model(name); st.Repository != r.Repository() {
		return st.Repository // of cloud storage
	}
	return ""
}

// place makes the folder of a model out of the files at path.
func (r *Runtime) place(path, name, place string) error {
	area, err := staging.NewArea(filepath.Join(r.work(), name), staging.Limits{})
	if err != nil {
		return err
	}
	defer area.Remove() //nolint:errcheck // what stays is deleted at the next start
	if err := area.CopyFrom(path); err != nil {
		return err
	}
	all, err := area.Arrange(filepath.Base(path))
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("%s has %d models; want one", path, len(all))
	}
	if err := staging.Rename(all[0].Dir, name); err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(all[0].Dir, repo.ConfigName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	runs, err := code.Find(all[0].Dir, name, string(config))
	if err != nil {
		return err
	}
	if len(runs) > 0 && !r.o.AllowCode {
		return errors.New(code.Refusal(runs, "--modelmesh-allow-code allows that"))
	}
	return folders.Place(all[0].Dir, place)
}

// UnloadModel implements mmesh.ModelRuntime.
func (r *Runtime) UnloadModel(ctx context.Context, q *mmesh.UnloadModelRequest) (*mmesh.UnloadModelResponse, error) {
	if err := repo.CheckName(q.ModelId); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	defer r.lock(q.ModelId)()
	return &mmesh.UnloadModelResponse{}, r.remove(ctx, q.ModelId)
}

// remove takes a model of this package out of service, waits until it is gone, and deletes its files.
func (r *Runtime) remove(ctx context.Context, name string) error {
	place := filepath.Join(r.Repository(), name)
	if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r.engine.Remove(name)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for r.loaded(name) {
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-tick.C:
		}
	}
	return os.RemoveAll(place)
}

// loaded reports whether a version of a model has memory.
func (r *Runtime) loaded(name string) bool {
	st, _ := r.engine.Model(name)
	return slices.ContainsFunc(st.Versions, func(v lifecycle.VersionStatus) bool {
		return v.State == lifecycle.Ready || v.State == lifecycle.Loading || v.State == lifecycle.Unloading
	})
}

// size is the memory of a loaded model if it was measured, otherwise a guess from its files.
func (r *Runtime) size(name string) (uint64, error) {
	if st, _ := r.engine.Model(name); st.Memory.Host > 0 {
		return uint64(st.Memory.Host), nil //nolint:gosec // it is positive
	}
	return guess(filepath.Join(r.Repository(), name))
}

// guess is the size of the files at path and a quarter more.
func guess(path string) (uint64, error) {
	n, err := folders.Size(path)
	return uint64(n + n/4), err //nolint:gosec // sizes are not negative
}

// PredictModelSize implements mmesh.ModelRuntime: the size that ModelMesh knows, otherwise that of files which are
// here, otherwise the default.
func (r *Runtime) PredictModelSize(_ context.Context, q *mmesh.PredictModelSizeRequest) (
	*mmesh.PredictModelSizeResponse, error) {
	var key struct {
		Bytes int64 `json:"disk_size_bytes"`
	}
	if err := json.Unmarshal([]byte(q.ModelKey), &key); err == nil && key.Bytes > 0 {
		return &mmesh.PredictModelSizeResponse{SizeInBytes: uint64(key.Bytes + key.Bytes/4)}, nil
	}
	size, err := guess(q.ModelPath)
	if err != nil || size == 0 {
		size = defaultSize
	}
	return &mmesh.PredictModelSizeResponse{SizeInBytes: size}, nil
}

const day = 24 * time.Hour

// defaultSize is what ModelMesh assumes of a model of which nothing is known.
const defaultSize = 64 << 20

// ModelSize implements mmesh.ModelRuntime.
func (r *Runtime) ModelSize(_ context.Context, q *mmesh.ModelSizeRequest) (*mmesh.ModelSizeResponse, error) {
	if err := repo.CheckName(q.ModelId); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	size, err := r.size(q.ModelId)
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "the model %s is not loaded", q.ModelId)
	}
	return &mmesh.ModelSizeResponse{SizeInBytes: size}, nil
}

// methods are those by which models are used. The name of the model is the first field of each request.
var methods = []string{
	"ModelInfer", "ModelStreamInfer", "ModelMetadata", "ModelReady", "ModelConfig", "ModelStatistics",
}

// RuntimeStatus implements mmesh.ModelRuntime. It unloads all models of this package.
func (r *Runtime) RuntimeStatus(ctx context.Context, _ *mmesh.RuntimeStatusRequest) (
	*mmesh.RuntimeStatusResponse, error) {
	if !r.engine.Live() {
		return &mmesh.RuntimeStatusResponse{Status: mmesh.RuntimeStatusResponse_STARTING}, nil
	}
	left, err := os.ReadDir(r.Repository())
	if err != nil {
		return nil, err
	}
	for _, d := range left {
		unlock := r.lock(d.Name())
		err := r.remove(ctx, d.Name())
		unlock()
		if err != nil {
			return nil, err
		}
	}
	infos := map[string]*mmesh.RuntimeStatusResponse_MethodInfo{}
	for _, m := range methods {
		infos["inference.GRPCInferenceService/"+m] =
			&mmesh.RuntimeStatusResponse_MethodInfo{IdInjectionPath: []uint32{1}}
	}
	//nolint:gosec // the options are not negative, and small enough
	return &mmesh.RuntimeStatusResponse{
		Status: mmesh.RuntimeStatusResponse_READY, CapacityInBytes: uint64(r.o.Capacity),
		MaxLoadingConcurrency: uint32(r.o.LoadThreads), DefaultModelSizeInBytes: defaultSize,
		ModelLoadingTimeoutMs: uint32(min(cmp.Or(r.o.LoadTimeout, day), day).Milliseconds()),
		RuntimeVersion:        r.o.Version, MethodInfos: infos,
	}, nil
}
