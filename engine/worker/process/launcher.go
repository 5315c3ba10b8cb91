package process

import (
	"crypto/rand"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"nereid/engine/status"
	"nereid/engine/system/affinity"
	"nereid/engine/worker/arena"
)

// The descriptors of a process beside stdin, stdout and stderr.
const (
	ControlFD = 3 + iota
	DownFD
	UpFD
)

// Spec describes a process.
type Spec struct {
	// Name is the model instance's, for the log.
	Name string
	// Command is the program and its arguments. Env is added to what it gets of the server's environment; see Environ.
	Command []string
	Env     []string
	Dir     string // working folder; "": the server's
	Limits  Limits
	// Affinity is the host policy of the process and of all that it starts.
	Affinity affinity.Policy
	// Arena is the initial size in bytes of the shared memory each way.
	Arena int64
}

// Launcher starts processes. It is safe for concurrent use.
type Launcher struct {
	log  *slog.Logger
	env  []string // further variables that processes get; see Environ
	id   string   // random; see kin_linux.go
	last atomic.Uint64
	jobs chan func()
	stop chan struct{}
	done chan struct{}
	once sync.Once
	oom  oomAccount

	mu         sync.Mutex
	guard      *guard // guarded by mu, as is the next; nil: not started, or it cannot be
	guardTried bool
}

// NewLauncher returns a launcher, which the caller closes. log may be nil. env has the names of variables that
// processes get in addition to the usual ones; see Environ.
func NewLauncher(log *slog.Logger, env []string) *Launcher {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Launcher{
		log: log, env: env, id: rand.Text(),
		jobs: make(chan func()), stop: make(chan struct{}), done: make(chan struct{}),
		oom: oomAccount{count: oomKills},
	}
	go l.run()
	if names := Withheld(os.Environ(), env); len(names) > 0 {
		log.Debug("variables that processes of models do not see; --model-env=NAME passes some", "names", names)
	}
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

// Close ends the launcher. All its processes must have been closed.
func (l *Launcher) Close() {
	l.once.Do(func() { close(l.stop) })
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guard != nil {
		l.guard.close()
	}
	l.guard, l.guardTried = nil, true
}

// Process is a running process and this side's ends of what it shares with the server.
type Process struct {
	// PID is the process's number.
	PID int
	// Socket is the control socket: one frame a packet.
	Socket *os.File
	// Down is the memory that the server allocates in, Up the one that the process allocates in.
	Down, Up *arena.Mapping

	launcher *Launcher
	proc     *os.Process
	id       string      // of the process and all that it starts; see kin_linux.go
	outputs  [2]*os.File // its stdout and stderr
	oomKills int64       // the launcher's account before it was started

	mu  sync.Mutex
	kin []kin // guarded by mu: see NoteKin
}

// Kill kills the process, which may have ended before.
func (p *Process) Kill() {
	p.NoteKin()
	_ = p.proc.Kill()
}

// ReadOutput reads what the process writes to stdout and stderr into o until both end, on goroutines of wg.
func (p *Process) ReadOutput(o *Output, wg *sync.WaitGroup) {
	for i, stream := range []string{"stdout", "stderr"} {
		wg.Go(func() { o.read(p.outputs[i], stream) })
	}
}
