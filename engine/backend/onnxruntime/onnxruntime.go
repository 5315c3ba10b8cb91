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
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/gpumem"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/worker"
)

// Options of the backend. The zero value works.
type Options struct {
	// Library is the path of libonnxruntime, 1.24 or newer, or of the folder that it is in: also one that a Python
	// package was installed into (pip install --target). Empty: the search that the package comment describes.
	Library string
	// RuntimeFolder is where a user may put another onnxruntime, one for GPUs above all, as a Python package. It comes
	// before the copy inside the program. Empty: nowhere.
	RuntimeFolder string
	// CacheFolder is where the copy inside the program is unpacked, once, and where optimized graphs are kept. Empty:
	// the user's cache folder, and no graphs.
	CacheFolder string
	// Threads is the size of the pool that models without thread counts of their own share. 0: one per core.
	Threads int
	// Launcher starts the processes of models that ask for them, by the command Worker with WorkerEnv added to this
	// program's environment: ServeWorker must be what runs there. Nil or empty: there are none.
	Launcher          *worker.Launcher
	Worker, WorkerEnv []string
	// GPUMemory is what instances on GPUs gather inputs and take outputs in, and what copies within a GPU; nil: they
	// use ordinary memory, and clients' CUDA regions come by way of it.
	GPUMemory *gpumem.Memory
	// Settings are those of --backend-config.
	Settings Settings
	// Log receives what concerns no model. Nil: nothing.
	Log *slog.Logger
}

// graphs is the folder of optimized graphs, "" if there is none.
func (o *Options) graphs() string {
	if o.CacheFolder == "" {
		return ""
	}
	return filepath.Join(o.CacheFolder, "optimized")
}

// Backend runs ONNX models.
type Backend struct {
	o   Options
	log *slog.Logger
	// pretend is set by tests: instances on GPUs run on the CPU, and their memory goes by this name (capi.CPU: it is
	// the host's).
	pretend string

	mu      sync.Mutex
	library *capi.Library // guarded by mu; opened by the first model
	path    string        // guarded by mu; where library came from
	found   string        // guarded by mu; where processes of their own take it from
}

var (
	_ backend.Backend       = (*Backend)(nil)
	_ backend.AutoCompleter = (*Backend)(nil)
)

// New returns the backend. It does not touch the library yet.
func New(o Options) *Backend {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Backend{o: o, log: log}
}

// Name returns "onnxruntime".
func (b *Backend) Name() string { return "onnxruntime" }

// Traits implements backend.Backend. The number of instances is Triton's for ONNX Runtime.
func (b *Backend) Traits() backend.Traits {
	return backend.Traits{DefaultInstanceCount: 2, BatchIO: true, ImplicitState: true, ParallelInstances: true}
}

// UsesGPUs implements backend.GPUUser. It reports whether the library has a provider for NVIDIA's GPUs: that of a
// runtime folder may have one, the built-in one has none.
func (b *Backend) UsesGPUs() bool {
	all, err := b.Providers()
	return err == nil &&
		(slices.Contains(all, "CUDAExecutionProvider") || slices.Contains(all, "TensorrtExecutionProvider"))
}

// Version opens the library, if that has not been done, and returns its version: "1.31.1".
func (b *Backend) Version() (string, error) {
	l, err := b.open()
	if err != nil {
		return "", err
	}
	return l.Version, nil
}

// Providers opens the library, if that has not been done, and returns the execution providers that it was built with,
// by its names: "CPUExecutionProvider".
func (b *Backend) Providers() ([]string, error) {
	l, err := b.open()
	if err != nil {
		return nil, err
	}
	return l.Providers, nil
}

// LibraryPath returns the path of the opened library, "" before it is opened.
func (b *Backend) LibraryPath() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.path
}

// open opens the library. A failure is not kept: the next model tries again.
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
	if err := initOptions(path); err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	b.log.Info("opened onnxruntime", "version", l.Version, "path", path)
	b.library, b.path = l, path
	return l, nil
}

// yalue guards the set-up of package onnxruntime_go, whose state is the process's.
var yalue sync.Mutex

// initOptions lets package onnxruntime_go use the library. The environment is there already: it takes that one, with
// its pool of threads, in place of making its own.
func initOptions(path string) error {
	yalue.Lock()
	defer yalue.Unlock()
	if ort.IsInitialized() {
		return nil
	}
	ort.SetSharedLibraryPath(path)
	if err := ort.InitializeEnvironment(); err != nil {
		return fmt.Errorf("set up session options of onnxruntime at %s: %w", path, err)
	}
	return nil
}

// Signature reads the model file's inputs and outputs. Outputs that are not tensors are left out, with a warning.
func (b *Backend) Signature(ctx context.Context, s backend.Spec) (*modelconfig.Signature, error) {
	if s.Log == nil {
		s.Log = b.log
	}
	if apart, err := isolated(s.Config); err != nil {
		return nil, err
	} else if apart {
		return b.isolatedSignature(ctx, s)
	}
	path, _, err := modelPath(s)
	if err != nil {
		return nil, err
	}
	l, err := b.open()
	if err != nil {
		return nil, err
	}
	o, err := newSessionOptions(s, pooled, &b.o.Settings)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := o.forReading(); err != nil {
		return nil, err
	}
	session, err := o.newSession(ctx, l, path)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	sig, err := readSignature(session)
	if err != nil {
		return nil, err
	}
	return sig.public(s.Log)
}

// Load loads a model version.
func (b *Backend) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	if s.Log == nil {
		s.Log = b.log
	}
	if apart, err := isolated(s.Config); err != nil {
		return nil, err
	} else if apart {
		m, err := b.newIsolated(ctx, s)
		if err != nil {
			return nil, err // not a nil model in an interface
		}
		return m, nil
	}
	path, info, err := modelPath(s)
	if err != nil {
		return nil, err
	}
	l, err := b.open()
	if err != nil {
		return nil, err
	}
	m, err := newModel(ctx, l, s, path, info, b, threadingOf(s, info, b.o.Settings.GlobalThreadPool))
	if err != nil {
		return nil, err
	}
	return m, nil
}
