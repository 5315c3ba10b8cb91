// Package backends makes all backends of the server, with what they share: the launcher of worker processes, the GPUs,
// and the pools of GPU memory.
package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"nereid/app/datadir"
	"nereid/app/options"
	"nereid/engine/agent"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/backend/python"
	"nereid/engine/backend/runtime"
	"nereid/engine/backend/triton"
	"nereid/engine/device"
	"nereid/engine/gpumem"
	"nereid/engine/metrics/custom"
	"nereid/engine/modelconfig"
	"nereid/engine/shm"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// Set is all backends and what they need.
type Set struct {
	All         []backend.Backend
	Python      *python.Backend
	ONNXRuntime *onnxruntime.Backend // its library is opened with the first model that needs it
	Libraries   *triton.Finder       // finds backends that are libraries of Triton's
	Metrics     *custom.Registry     // the metrics that models make
	Agents      []*triton.Agent      // repository agents that are libraries of Triton's

	Machine   *device.Machine // nil: there are no GPUs
	Regions   shm.Importer    // opens clients' device memory; nil: there is none
	GPUMemory *gpumem.Memory  // nil: there is no GPU

	launcher  *worker.Launcher
	program   string   // the file that runs as the processes of models
	env       []string // names of variables that processes get
	closeCUDA func()
}

// Open finds the GPUs and makes the backends. requests counts the memory that they need for requests.
func Open(c *options.Config, dataDir string, requests *tensor.Budget, log *slog.Logger) (*Set, error) {
	s := &Set{Machine: OpenMachine(c, log)}
	memory := c.GPUMemory
	memory.Log = log
	s.Regions, s.GPUMemory, s.closeCUDA = openCUDA(s.Machine, memory)
	if err := s.open(c, dataDir, requests, log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// ForInspection makes the backends without the machine's GPUs: they only check and complete configurations.
func ForInspection(c *options.Config, dataDir string) (*Set, error) {
	s := &Set{}
	if err := s.open(c, dataDir, nil, slog.New(slog.DiscardHandler)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Set) open(c *options.Config, dataDir string, requests *tensor.Budget, log *slog.Logger) error {
	s.launcher = worker.NewLauncher(worker.Options{
		Env: c.Backends.Env, StartLimit: c.Engine.LoadTimeout, CrashInputs: c.Backends.CrashInputs, Log: log,
	})
	s.program, s.env = c.Backends.Program, c.Backends.Env
	var err error
	if s.program == "" {
		if s.program, err = os.Executable(); err != nil {
			return fmt.Errorf("the path of this program, which runs the processes of models, is not known: %w", err)
		}
	}
	ort, cache := c.Backends.ONNXRuntime, filepath.Join(dataDir, "runtime")
	ort.RuntimeFolder, ort.CacheFolder = filepath.Join(cache, "onnxruntime"), cache
	ort.GPUMemory, ort.Memory, ort.Log = s.GPUMemory, requests, log
	ort.Launcher, ort.Worker = s.launcher, s.worker()
	s.ONNXRuntime = onnxruntime.New(ort)

	if c.Backends.Agents != "" {
		if err := s.findAgents(c.Backends.Agents, log); err != nil {
			return fmt.Errorf("--repoagent-directory: %w", err)
		}
	}
	if s.Metrics = c.Backends.Metrics; s.Metrics == nil {
		s.Metrics = &custom.Registry{}
	}
	py := c.Backends.Python
	py.Folder, py.Launcher, py.Metrics, py.Log = datadir.Python(dataDir), s.launcher, s.Metrics, log
	if s.Python, err = python.New(py); err != nil {
		return err
	}
	more, err := s.Python.Based(c.Backends.Directory)
	if err != nil {
		return fmt.Errorf("--backend-directory: %w", err)
	}
	own := slices.DeleteFunc(append(builtin.All(), s.ONNXRuntime, s.Python), func(b backend.Backend) bool {
		return slices.ContainsFunc(more, func(m backend.Backend) bool { return m.Name() == b.Name() })
	})
	s.All = append(own, more...)
	s.Libraries = triton.NewFinder(triton.Options{
		Directory: c.Backends.Directory, Settings: librarySettings(c),
		Strategies: s.worker(triton.StrategyWorkerName), Env: s.env,
		Processes: triton.Processes{
			Launcher: s.launcher, Worker: s.worker(triton.WorkerName), Metrics: s.Metrics,
		},
	})
	return s.addFrameworks(c, py.Folder)
}

// findAgents finds the repository agents in a directory. Those that are built in take precedence.
func (s *Set) findAgents(directory string, log *slog.Logger) error {
	all, err := triton.FindAgents(triton.AgentOptions{Directory: directory, Env: s.env,
		Worker: s.worker(triton.AgentWorkerName)})
	for _, a := range all {
		if slices.ContainsFunc(agent.All(), func(own agent.Agent) bool { return own.Name() == a.Name() }) {
			log.Warn(fmt.Sprintf("the library %s is not used: the repository agent %s is built in; give the library "+
				"another name", a.Library(), a.Name()))
			continue
		}
		s.Agents = append(s.Agents, a)
	}
	return err
}

// librarySettings returns the settings that the libraries of backends get. As in Triton, those of all backends include
// some with defaults and those that are also options.
func librarySettings(c *options.Config) map[string]map[string]string {
	all := map[string]string{"default-max-batch-size": strconv.Itoa(modelconfig.DefaultMaxBatchSize)}
	maps.Copy(all, c.Backends.Libraries[""])
	all["auto-complete-config"] = strconv.FormatBool(!c.Engine.DisableAutoComplete)
	all["backend-directory"] = c.Backends.Directory
	all["min-compute-capability"] = fmt.Sprintf("%f", c.GPUs.MinCapability) // six digits, as Triton writes it
	settings := map[string]map[string]string{}
	maps.Copy(settings, c.Backends.Libraries)
	settings[""] = all
	return settings
}

// worker is the command of a process that runs ServeWorker with args.
func (s *Set) worker(args ...string) []string { return append([]string{s.program, "worker"}, args...) }

// addFrameworks adds the backends that use the libraries of frameworks, which are installed in folder. A backend of the
// backend directory takes precedence over the framework's of the same name.
func (s *Set) addFrameworks(c *options.Config, folder string) error {
	for _, name := range runtime.Names() {
		if slices.ContainsFunc(s.All, func(b backend.Backend) bool { return b.Name() == name }) {
			continue
		}
		f, ok := python.FindFramework(name)
		if !ok {
			return fmt.Errorf("framework %s is not in the list of frameworks", name)
		}
		b, err := runtime.New(name, runtime.Options{
			Settings: c.Backends.Frameworks[name], Environment: f.Environment(folder),
			Interpreter: c.Backends.Interpreter(),
			Install:     fmt.Sprintf("run 'nereid install %s' (%s)", f.Name, f.Size),
			Launcher:    s.launcher, Worker: s.worker(name),
		})
		if err != nil {
			return err
		}
		s.All = append(s.All, b)
	}
	return nil
}

// Leave notifies the processes of models that the server is about to stop: see worker.Supervisor.Leave.
func (s *Set) Leave() { s.launcher.Leave() }

// Kill kills the processes of models. It does not wait until they have exited.
func (s *Set) Kill() { s.launcher.Kill() }

// Close stops the processes of models and releases the GPUs. All models must have been closed.
func (s *Set) Close() error {
	if s.Python != nil {
		s.Python.Close()
	}
	if s.launcher != nil {
		s.launcher.Close()
	}
	if s.closeCUDA != nil {
		s.closeCUDA()
	}
	var errs []error
	for _, a := range s.Agents {
		errs = append(errs, a.Close())
	}
	if err := s.Machine.Close(); err != nil {
		errs = append(errs, fmt.Errorf("the GPUs' driver could not be released: %w", err))
	}
	return errors.Join(errs...)
}

// OpenCache opens a response cache that is a library of Triton's. The caller closes it.
func (s *Set) OpenCache(o options.ResponseCache, log *slog.Logger) (*triton.Cache, error) {
	return triton.NewCache(triton.CacheOptions{
		Directory: o.Directory, Name: o.Library, Settings: o.Settings, Env: s.env, Log: log,
		Worker: s.worker(triton.CacheWorkerName),
	})
}

// ServeWorker is the main function of a model's process. args has the name of the backend; none: ONNX Runtime.
func ServeWorker(ctx context.Context, args []string, stderr io.Writer) error {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	if len(args) == 0 {
		return onnxruntime.ServeWorker(ctx, log)
	}
	switch args[0] {
	case triton.WorkerName:
		return triton.ServeWorker(ctx, log)
	case triton.CacheWorkerName:
		return triton.ServeCache(ctx, log)
	case triton.AgentWorkerName:
		return triton.ServeAgent(ctx, log)
	case triton.StrategyWorkerName:
		return triton.ServeStrategy(ctx, log)
	}
	return runtime.ServeWorker(ctx, args[0], log)
}

// Installer installs the frameworks that Python models need.
type Installer struct {
	Folder      string // see datadir.Python
	Interpreter string // the Python with which environments are made
}

// List returns the frameworks that can be installed.
func (Installer) List() []python.Framework { return python.Frameworks() }

// Installed reports whether a framework is installed.
func (i Installer) Installed(f python.Framework) bool { return f.Installed(i.Folder) }

// Install installs a framework. The output of the installer goes to out.
func (i Installer) Install(ctx context.Context, f python.Framework, out io.Writer) error {
	return python.InstallFramework(ctx, i.Folder, i.Interpreter, f, out)
}
