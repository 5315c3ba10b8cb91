package triton

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
)

// Options say where libraries are and how their processes are started.
type Options struct {
	// Directory has a folder for each backend, as in Triton's --backend-directory. "": there is none.
	Directory string
	// Settings are those of --backend-config=<name>,key=value, by the backend's name. Those of "" are for all.
	Settings map[string]map[string]string
	// Strategies is the command of a batching strategy's process, which must call ServeStrategy. Env are the names of
	// variables that it gets, in addition to those of models' processes.
	Strategies, Env []string
	Processes
}

// Finder finds the backend libraries of models. Its methods are safe for concurrent use.
type Finder struct {
	o Options

	mu    sync.Mutex
	found map[string]*Backend // guarded by mu: by the name and the path of the library
}

// NewFinder returns a finder.
func NewFinder(o Options) *Finder { return &Finder{o: o, found: map[string]*Backend{}} }

// prefix and suffix are around a backend's name in the name of its library.
const (
	prefix = "libtriton_"
	suffix = ".so"
)

// OfModel returns the backend whose library is in the folder of the model's version, in the model's, or, if the
// configuration names the library, in the backend directory; nil: there is none. Such a library takes precedence over
// all other backends of its name.
func (f *Finder) OfModel(cfg *inferencepb.ModelConfig, modelFolder, versionFolder string) backend.Backend {
	if b := f.in(cfg, versionFolder, modelFolder); b != nil || cfg.GetRuntime() == "" {
		return b
	}
	return f.Of(cfg)
}

// Of returns the backend whose library is in the backend directory; nil: there is none.
func (f *Finder) Of(cfg *inferencepb.ModelConfig) backend.Backend {
	if f.o.Directory == "" {
		return nil
	}
	return f.in(cfg, filepath.Join(f.o.Directory, cfg.GetBackend()))
}

// Names returns the names of the backends in the backend directory.
func (f *Finder) Names() (names []string) {
	if f.o.Directory == "" {
		return nil
	}
	entries, _ := os.ReadDir(f.o.Directory) // the start of the server reports a folder that cannot be read
	for _, e := range entries {
		if f.Of(&inferencepb.ModelConfig{Backend: e.Name()}) != nil {
			names = append(names, e.Name())
		}
	}
	return names
}

// in returns the backend whose library is in the first of the folders that has it.
func (f *Finder) in(cfg *inferencepb.ModelConfig, folders ...string) backend.Backend {
	name := cfg.GetBackend()
	if name == "" || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") {
		return nil
	}
	file := cmp.Or(cfg.GetRuntime(), prefix+name+suffix)
	if filepath.Base(file) != file || !strings.HasSuffix(file, suffix) {
		return nil
	}
	for _, folder := range folders {
		path := filepath.Join(folder, file)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return f.backend(name, path)
		}
	}
	return nil
}

func (f *Finder) backend(name, path string) *Backend {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	key := name + "\x00" + path
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.found[key]
	if b == nil {
		b = &Backend{name: name, library: path, o: &f.o}
		f.found[key] = b
	}
	return b
}
