package onnxruntime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"nereid/engine/backend"
	"nereid/engine/backend/isolation"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/gpumem"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// Options of the backend. The zero value works.
type Options struct {
	// Library is the path of libonnxruntime 1.24 or newer, or of a folder that contains it. A folder into which pip
	// install --target has put a Python package is one. Empty: the search order in the package comment.
	Library string
	// RuntimeFolder is where a user may install another onnxruntime as a Python package, mostly one for GPUs. It is
	// preferred to the copy inside the program. Empty: there is none.
	RuntimeFolder string
	// CacheFolder is where the copy inside the program is unpacked and optimized graphs are stored. Empty: the user's
	// cache folder, and graphs are not stored.
	CacheFolder string
	// Threads is the size of the thread pool that models without thread counts share. 0: one thread per core.
	Threads int
	// Launcher starts the processes of isolated models. Worker is their command, which must call ServeWorker;
	// WorkerEnv is added to this program's environment. Nil or empty: isolated models are refused.
	Launcher          *worker.Launcher
	Worker, WorkerEnv []string
	// GPUMemory is the GPU memory and the pinned memory for instances on GPUs. Nil: they use ordinary memory, and
	// clients' CUDA regions are copied through it.
	GPUMemory *gpumem.Memory
	// Memory counts what string tensors need during a run, which may be many times their size. Nil: it is not counted.
	// A quarter of its limit, 256 MiB at most, is what the runs of all models leave in memory for later ones; without a
	// limit it is 64 MiB.
	Memory *tensor.Budget
	// Settings are those of --backend-config.
	Settings Settings
	// Log receives events that concern no model. Nil: they are dropped.
	Log *slog.Logger
}

// keptMemory returns how many freed bytes of runs are kept for later ones.
func (o *Options) keptMemory() int64 {
	const most, usual = 256 << 20, 64 << 20
	if limit := o.Memory.Limit(); limit > 0 {
		return min(most, limit/4)
	}
	return usual
}

// graphs returns the folder of optimized graphs, or "".
func (o *Options) graphs() string {
	if o.CacheFolder == "" {
		return ""
	}
	return filepath.Join(o.CacheFolder, "optimized")
}

// Backend runs ONNX models. It is safe for concurrent use.
type Backend struct {
	o   Options
	log *slog.Logger
	// fakeGPU is set by tests: instances on GPUs run on the CPU. It is ONNX Runtime's name for their memory.
	fakeGPU string
	// fillAll is set by tests: all runs on GPUs are filled up, as those of models with convolutions.
	fillAll bool

	mu      sync.Mutex
	library *capi.Library // guarded by mu; opened by the first model
	path    string        // guarded by mu; of library
	found   string        // guarded by mu; the library that the processes of isolated models open
}

var (
	_ backend.Backend       = (*Backend)(nil)
	_ backend.AutoCompleter = (*Backend)(nil)
)

// New returns the backend. The library is opened by the first model.
func New(o Options) *Backend {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Backend{o: o, log: log}
}

// Name returns "onnxruntime".
func (b *Backend) Name() string { return "onnxruntime" }

// Traits implements backend.Backend. DefaultInstanceCount is Triton's for ONNX Runtime.
func (b *Backend) Traits() backend.Traits {
	return backend.Traits{DefaultInstanceCount: 2, BatchIO: true, ImplicitState: true, ParallelInstances: true,
		Scalars: true}
}

// UsesGPUs implements backend.GPUUser. It reports whether the library has an execution provider for NVIDIA's GPUs. The
// copy inside the program has none.
func (b *Backend) UsesGPUs() bool {
	all, err := b.Providers()
	return err == nil &&
		(slices.Contains(all, cudaProvider) || slices.Contains(all, tensorRTProvider))
}

// Version opens the library if necessary and returns its version, such as "1.31.1".
func (b *Backend) Version() (string, error) {
	l, err := b.open()
	if err != nil {
		return "", err
	}
	return l.Version, nil
}

// Providers opens the library if necessary and returns the names of the execution providers that it was built with,
// such as "CPUExecutionProvider".
func (b *Backend) Providers() ([]string, error) {
	l, err := b.open()
	if err != nil {
		return nil, err
	}
	return l.Providers, nil
}

// LibraryPath returns the path of the library, "" before it is opened.
func (b *Backend) LibraryPath() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.path
}

// open returns the library, which it opens first if necessary. After a failure the next model tries again.
func (b *Backend) open() (*capi.Library, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.library != nil {
		return b.library, nil
	}
	path, err := b.o.findLibrary(embedded)
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "%w", err)
	}
	intra, inter := b.o.Settings.pool(b.o.Threads)
	l, err := capi.Open(path, intra, inter)
	var old *capi.TooOld
	switch {
	case errors.As(err, &old):
		return nil, status.Errorf(status.Unsupported, "%w; set --onnxruntime-library to a newer one", err)
	case err != nil:
		return nil, status.Errorf(status.Unavailable,
			"%w; set --onnxruntime-library to the path of libonnxruntime.so", err)
	}
	capi.KeepMemory(b.o.keptMemory())
	if err := initOptions(path); err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	b.log.Info("opened onnxruntime", "version", l.Version, "path", path)
	b.library, b.path = l, path
	return l, nil
}

// ortMu guards the initialization of package onnxruntime_go, whose state is global.
var ortMu sync.Mutex

// initOptions initializes package onnxruntime_go, which makes session options. It uses the environment of package capi,
// with its thread pool.
func initOptions(path string) error {
	ortMu.Lock()
	defer ortMu.Unlock()
	if ort.IsInitialized() {
		return nil
	}
	ort.SetSharedLibraryPath(path)
	if err := ort.InitializeEnvironment(); err != nil {
		return fmt.Errorf("set up session options of onnxruntime at %s: %w", path, err)
	}
	return nil
}

// Signature implements backend.AutoCompleter. Outputs that are not tensors are left out, with a warning in the log.
func (b *Backend) Signature(ctx context.Context, s backend.Spec) (*modelconfig.Signature, error) {
	if s.Log == nil {
		s.Log = b.log
	}
	// A model that the server itself isolates may be read here: that does not execute it.
	if v, err := isolationOf(s.Config); err != nil {
		return nil, err
	} else if v == isolationProcess {
		o, err := b.isolationOptions(&s)
		if err != nil {
			return nil, err
		}
		return isolation.Signature(ctx, s, *o)
	}
	path, _, err := modelPath(s)
	if err != nil {
		return nil, err
	}
	l, err := b.open()
	if err != nil {
		return nil, err
	}
	session, err := inspectionSession(ctx, l, s, path, pooled, &b.o.Settings)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	sig, err := readSignature(session)
	if err != nil {
		return nil, err
	}
	return sig.public(s)
}

// Load implements backend.Backend.
func (b *Backend) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	if s.Log == nil {
		s.Log = b.log
	}
	if o, err := b.isolationOptions(&s); err != nil {
		return nil, err
	} else if o != nil {
		return modelOrNil(isolation.Load(ctx, s, *o))
	}
	path, info, err := modelPath(s)
	if err != nil {
		return nil, err
	}
	l, err := b.open()
	if err != nil {
		return nil, err
	}
	return modelOrNil(newModel(ctx, l, s, path, info, b, threadingOf(s, info, b.o.Settings.GlobalThreadPool)))
}

// modelOrNil converts a pointer to an interface. On an error the interface is nil too.
func modelOrNil[M backend.Model](m M, err error) (backend.Model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}
