package worker

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/tensor"
)

// Caller is what a worker may ask of the server.
type Caller interface {
	// Infer admits a request that a model makes to another one; see backend.Host.
	Infer(ctx context.Context, r *infer.Request) error
	// Call answers a call up: what it returns is the reply, as JSON.
	Call(ctx context.Context, op string, args json.RawMessage) (any, error)
	// Metric changes a metric: op is MetricIncrement, MetricSet or MetricObserve.
	Metric(metric uint64, op uint32, value float64)
}

// Limits bound what a worker takes. What its children take counts for descriptors and memory each for itself.
type Limits struct {
	// Memory is the most private memory in bytes; allocations beyond fail inside the worker. 0: what the machine, or the
	// control group of the server, has. Negative: no limit.
	Memory int64
	// Files is the most descriptors. 0: as the server's.
	Files uint64
	// Processes is the most processes and threads of the server's user. 0: as the server's. The kernel does not apply it
	// to root.
	Processes uint64
	// Execute is the longest an execution may take before the worker is killed. 0: there is no limit.
	Execute time.Duration
}

// Spec describes a worker.
type Spec struct {
	// Name is the model instance's: "mlp_0_0". ModelName is the model's.
	Name, ModelName string
	Version         int64
	// Command is the program and its arguments. Env is added to the server's environment.
	Command []string
	Env     []string
	Dir     string // "": the server's
	Limits  Limits
	// Affinity is what the process, with all that it starts, keeps to from its start on.
	Affinity affinity.Policy
	// Arena is how large the memory for tensors is at first, Grow by how much it grows at least, each way. 0: 1 MiB.
	Arena, Grow int64
	// StartTimeout is the longest that the worker may take to say hello. 0: 30 s.
	StartTimeout time.Duration
	// Decoupled says that requests may be answered after their execution, and any number of times.
	Decoupled bool
	// Outputs are the model's, with the types that they must have. nil: they are not checked.
	Outputs map[string]tensor.DataType
	Caller  Caller // nil: it may ask for nothing
	Log     *slog.Logger
}

// Launcher starts workers. One is made per process, and closed when all workers are.
type Launcher struct {
	log  *slog.Logger
	jobs chan func()
	stop chan struct{}
	done chan struct{}
	once sync.Once
	oom  oomAccount

	mu      sync.Mutex
	guard   *guard // guarded by mu, as is all below; nil: not started, or it cannot be
	tried   bool
	workers map[*Worker]struct{} // that live
}

// NewLauncher returns a launcher. The caller closes it.
func NewLauncher(log *slog.Logger) *Launcher {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Launcher{log: log, jobs: make(chan func()), stop: make(chan struct{}), done: make(chan struct{}), oom: oomAccount{count: oomKills}}
	go l.run()
	return l
}

// do runs f on the thread that starts processes.
func (l *Launcher) do(f func()) error {
	ran := make(chan struct{})
	select {
	case l.jobs <- func() { f(); close(ran) }:
		<-ran
		return nil
	case <-l.stop:
		return status.New(status.Unavailable, "the server is shutting down: no process can be started for a model")
	}
}

// Close ends the launcher. All workers must be closed.
func (l *Launcher) Close() {
	l.once.Do(func() { close(l.stop) })
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guard != nil {
		l.guard.close()
	}
	l.guard, l.tried = nil, true
}
