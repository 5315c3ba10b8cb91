package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/worker/arena"
	"nereid/engine/worker/frames"
	"nereid/engine/worker/process"
)

// versionVar is the environment variable with the version of the protocol.
const versionVar = "NEREID_WORKER"

// Caller is what a process may ask of the server. It is safe for concurrent use.
type Caller interface {
	// Infer admits a request that a model makes to another one; see backend.Host. It does not block.
	Infer(ctx context.Context, r *infer.Request) error
	// Call answers a call of the process. The result is the reply, as JSON.
	Call(ctx context.Context, op string, args json.RawMessage) (any, error)
	// Metric changes a metric. op is frames.MetricIncrement, MetricSet or MetricObserve.
	Metric(metric uint64, op uint32, value float64)
}

// Spec describes a worker.
type Spec struct {
	// Name is the model instance's: "mlp_0_0".
	Name string
	// ModelName and Version are the model's.
	ModelName string
	Version   int64
	// Command is the program and its arguments. Env is added to what it gets of the server's environment; see
	// process.Environ.
	Command []string
	Env     []string
	Limits  process.Limits
	// Affinity is the host policy of the process and of all that it starts.
	Affinity affinity.Policy
	// Arena is the initial size in bytes of the shared memory each way, and Grow its least growth. 0: 1 MiB.
	Arena, Grow int64
	// StartTimeout is how long the process may take to say hello. 0: 30 s.
	StartTimeout time.Duration
	// Passive says that the instance takes no requests.
	Passive bool
	// Decoupled says that requests may be answered after their execution, and any number of times.
	Decoupled bool
	// Outputs are those of the model's configuration. nil: they are not checked.
	Outputs *Outputs
	// Caller serves the calls of the process; nil: it may make none.
	Caller Caller
	// Reported is called with what the process reports of executions and responses; nil: that is dropped.
	Reported func(infer.Report)
	Log      *slog.Logger // nil: nothing is logged
}

// Options say what all processes of a server have in common. The zero value is ready to use.
type Options struct {
	// Env are names of variables of the server's environment that processes get in addition to the usual ones; see
	// process.Environ.
	Env []string
	// StartLimit is how long a process that is started again may take until it executes. 0: there is no limit.
	StartLimit time.Duration
	// CrashInputs is a folder for inputs that have crashed a process twice; see Suspects. "": they are not saved.
	CrashInputs string
	Log         *slog.Logger // nil: nothing is logged
}

// Launcher starts workers. A server has one, and closes it after all workers.
type Launcher struct {
	o         Options
	processes *process.Launcher
	saver     saver

	mu      sync.Mutex
	workers map[*Worker]struct{} // guarded by mu, as is the next: those whose process runs
	stopped bool                 // no process is started any more
}

// NewLauncher returns a launcher, which the caller closes.
func NewLauncher(o Options) *Launcher {
	return &Launcher{o: o, processes: process.NewLauncher(o.Log, o.Env), saver: saver{folder: o.CrashInputs},
		workers: map[*Worker]struct{}{}}
}

// Env returns Options.Env.
func (l *Launcher) Env() []string { return l.o.Env }

// Leave does for all processes what Supervisor.Leave does for one, without the limit of an unload: the server is about
// to stop.
func (l *Launcher) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.workers {
		w.watch.leave()
	}
}

// Kill kills all processes, and does not wait for their ends. No process can be started from then on.
func (l *Launcher) Kill() {
	l.mu.Lock()
	l.stopped = true
	workers := slices.Collect(maps.Keys(l.workers))
	l.mu.Unlock()
	for _, w := range workers {
		w.stop()
	}
}

// isStopped reports whether Kill was called.
func (l *Launcher) isStopped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped
}

// Close ends the launcher. All workers must be closed.
func (l *Launcher) Close() { l.processes.Close() }

// Start starts a process and waits for its hello. Errors: NotFound when the program does not exist, Internal when it
// ends or does not answer, Unsupported outside Linux, ctx's.
func (l *Launcher) Start(ctx context.Context, s Spec) (*Worker, error) {
	s.Arena, s.Grow = cmp.Or(s.Arena, 1<<20), cmp.Or(s.Grow, 1<<20)
	s.Arena = (s.Arena + arena.HeaderSize - 1) &^ (arena.HeaderSize - 1)
	s.StartTimeout = cmp.Or(s.StartTimeout, startTimeout)
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	p, err := l.processes.Start(process.Spec{
		Name: s.Name, Command: s.Command, Env: append([]string{versionVar + "=" + strconv.Itoa(frames.Version)},
			s.Env...),
		Limits: s.Limits, Affinity: s.Affinity, Arena: s.Arena,
	})
	if err != nil {
		return nil, err
	}
	w := newWorker(l, p, s)
	p.ReadOutput(w.output, &w.outputs)
	l.mu.Lock()
	l.workers[w] = struct{}{}
	stopped := l.stopped
	l.mu.Unlock()
	ended := make(chan string, 1)
	w.tasks.Go(func() {
		how := p.Wait()
		p.HangUp() // a child that has left the process group may still have the other end
		ended <- how
	})
	w.tasks.Go(func() { w.run(ended) })
	if stopped {
		w.Kill()
		return nil, status.New(status.Unavailable, "the server is shutting down: no process can be started for a model")
	}
	if err := w.awaitHello(ctx); err != nil {
		w.Kill()
		return nil, err
	}
	return w, nil
}

// remove removes a worker whose process has ended.
func (l *Launcher) remove(w *Worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.workers, w)
}
