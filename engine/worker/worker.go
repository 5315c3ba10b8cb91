package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker/arena"
	"nereid/engine/worker/frames"
	"nereid/engine/worker/process"
)

// Worker is one process that executes a model instance. Execute and ExecuteSeries are called by one goroutine at a
// time; all other methods are safe for concurrent use.
type Worker struct {
	launcher *Launcher
	spec     Spec
	log      *slog.Logger
	p        *process.Process
	down     *arena.Arena
	output   *process.Output
	hello    frames.Hello

	enc    frames.Encoder // of the goroutine in Execute
	exec   execution      // of the goroutine in Execute
	reader reader
	clock  stampClock  // of the goroutine that reads
	pool   tensor.Pool // of what is read

	calls callTable
	bls   blsTable

	progress
	watch watch

	mu                   sync.Mutex
	current              *execution          // guarded by mu, as are the next; nil: nothing is executed
	late                 map[uint64]*pending // requests whose execution is over, by ticket
	lastExec, lastTicket uint64
	closed               bool       // nothing more is sent
	err                  error      // why the process ended
	readiness            *readiness // that the process has not answered; nil: none

	greeted  chan struct{}   // closed after HELLO
	ctx      context.Context // ends when the process has ended and all its requests are answered
	end      context.CancelFunc
	dead     <-chan struct{} // ctx.Done()
	tasks    sync.WaitGroup  // goroutines that end with the process
	outputs  sync.WaitGroup  // goroutines that read its output
	backlogs sync.WaitGroup  // goroutines that answer slow clients, after the end of the process too
}

// progress is what a worker notes of its process.
type progress struct {
	running atomic.Uint64 // the execution under way; 0: none
	served  atomic.Bool   // an execution has ended
	stopped atomic.Bool   // this side killed the process
	// suspects gets what the process executes if it crashes. nil: nothing is noted.
	suspects atomic.Pointer[Suspects]
}

// pending is a request that the worker has.
type pending struct {
	r       *infer.Request
	ticket  uint64
	state   uint32          // index of its state byte
	done    bool            // its final response has come
	held    *infer.Response // of a model that is not decoupled: a response that came before FINAL
	backlog *backlog        // of a decoupled model: responses that wait for a slow client; nil: none

	// The origins of calls that were made for this request: of those that block the execution, and of others.
	blocking, others *infer.Origin
}

func newWorker(l *Launcher, p *process.Process, s Spec) *Worker {
	w := &Worker{
		launcher: l, spec: s, log: s.Log, p: p, down: arena.New(p.Down, s.Grow), output: process.NewOutput(s.Log),
		clock: newStampClock(), late: map[uint64]*pending{}, greeted: make(chan struct{}),
	}
	w.watch = newWatch(w)
	w.ctx, w.end = context.WithCancel(context.Background())
	w.dead = w.ctx.Done()
	w.enc.Arena = w.down
	w.exec.done = make(chan struct{}, 1)
	w.calls = callTable{w: w, waiting: map[uint64]chan []byte{}}
	w.bls = blsTable{w: w, open: map[uint64]*blsCall{}}
	w.reader = reader{
		w: w, dec: frames.NewServerDecoder(p.Up, w.down, &w.pool), buf: make([]byte, frames.MaxPacket+1),
		active: true, ended: make(chan error, 1),
	}
	return w
}

// awaitHello waits until the process has said hello, and checks what it said.
func (w *Worker) awaitHello(ctx context.Context) error {
	timeout := time.NewTimer(w.spec.StartTimeout)
	defer timeout.Stop()
	select {
	case <-w.greeted:
	case <-w.dead:
		return w.withOutput(w.Err())
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return status.Errorf(status.Internal, "the process of model instance '%s' (%s) did not answer within %v",
			w.spec.Name, w.spec.Command[0], w.spec.StartTimeout)
	}
	switch {
	case w.hello.Error != "":
		return status.Errorf(status.Internal, "the process of model instance '%s' (%s) cannot work: %s",
			w.spec.Name, w.spec.Command[0], w.hello.Error)
	case w.hello.Protocol != frames.Version:
		return status.Errorf(status.Internal,
			"the process of model instance '%s' speaks version %d of the worker protocol, the server %d",
			w.spec.Name, w.hello.Protocol, frames.Version)
	}
	return nil
}

// withOutput adds the last output of a process that has ended to the error.
func (w *Worker) withOutput(err error) error {
	if lines := w.output.Lines(); len(lines) > 0 {
		return status.Errorf(status.CodeOf(err), "%w; its last output:\n%s", err, strings.Join(lines, "\n"))
	}
	return err
}

// PID returns the process's number.
func (w *Worker) PID() int { return w.p.PID }

// Done is closed when the process has ended and all its requests are answered.
func (w *Worker) Done() <-chan struct{} { return w.dead }

// Err returns why the process ended: Unavailable. nil: it runs.
func (w *Worker) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Executing reports whether the process executes a batch now.
func (w *Worker) Executing() bool { return w.running.Load() != 0 }

// Executions returns how many executions have begun.
func (w *Worker) Executions() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastExec
}

// ResidentBytes returns the process's memory in bytes, with what is shared with it; 0: not known.
func (w *Worker) ResidentBytes() int64 { return w.p.ResidentBytes() }

// InputBuffer returns n bytes of the memory that is shared with the process, for an input of a request that may be
// executed there. nil: there is no room, or the process has ended.
func (w *Worker) InputBuffer(n int) *tensor.Buffer {
	if !w.retain() {
		return nil
	}
	defer w.down.Release()
	return w.down.Reserve(n)
}

// retain keeps the arenas mapped until the caller releases w.down. false: the process has ended.
func (w *Worker) retain() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.down.Retain()
	}
	return !w.closed
}

// Trim makes both sides release shared memory that is not in use.
func (w *Worker) Trim(ctx context.Context) error {
	if !w.retain() {
		return w.Err()
	}
	w.down.Trim()
	w.down.Release()
	return w.Call(ctx, "trim", nil, nil)
}

// Configure sets what a worker that was started without a model's whole configuration executes; see Spec. It is called
// before the first Execute.
func (w *Worker) Configure(name string, passive, decoupled bool, outputs *Outputs) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spec.Name, w.spec.Passive, w.spec.Decoupled, w.spec.Outputs = name, passive, decoupled, outputs
}

// stop kills the process, for a reason that is not a crash, and does not wait.
func (w *Worker) stop() {
	w.stopped.Store(true)
	w.p.Kill()
}

// Kill kills the process and waits until its requests are answered. It may be called more than once.
func (w *Worker) Kill() {
	w.stop()
	<-w.dead
	w.tasks.Wait()
}

// Close asks the model to finalize and ends the process, by force when ctx ends. The error is that of the model's
// finalize.
func (w *Worker) Close(ctx context.Context) error {
	w.p.NoteKin() // the process may end by itself
	err := w.Call(ctx, "finalize", nil, nil)
	if w.Err() != nil {
		err = nil // it ended before, which Done has reported
	} else if err == nil {
		select {
		case <-w.dead:
		case <-ctx.Done():
		}
	}
	w.Kill()
	w.backlogs.Wait()
	return err
}

// run reads frames until the process ends, then answers everything that waits for it.
func (w *Worker) run(ended <-chan string) {
	err := w.reader.run()
	w.p.Kill() // a process that does not follow the protocol is not kept
	how := <-ended
	if left := w.pendingResponses(); left != nil {
		w.log.Warn("answers that a model's process had not sent when it ended cannot be read", "err", left)
	}
	switch {
	case w.unloadOverdue():
		err = status.Errorf(status.Unavailable, "model instance '%s' was still at work more than %v after its "+
			"model was unloaded (unload-timeout-seconds); its process was ended", w.spec.Name, w.watch.unloadLimit())
	case err == nil:
		err = status.Errorf(status.Unavailable, "the process of model instance '%s' ended while it had the request: %s",
			w.spec.Name, how)
	default:
		err = status.Errorf(status.Unavailable, "the process of model instance '%s' was ended: %w", w.spec.Name, err)
	}
	w.failAll(err)
	w.launcher.remove(w)
	w.p.StopOutput(time.Now().Add(outputDrain))
	w.outputs.Wait()
	w.p.Close()
	w.end()
}

// failAll ends everything that waits for the process, with an error. The requests of the execution under way are left
// to the goroutine in Execute.
func (w *Worker) failAll(err error) {
	w.mu.Lock()
	w.closed, w.err = true, err
	w.watch.stop()
	late, current := w.late, w.current
	w.late, w.current = map[uint64]*pending{}, nil
	w.mu.Unlock()
	w.running.Store(0)
	w.bls.close()
	w.calls.close()
	if s := w.suspects.Load(); s != nil && !w.stopped.Load() {
		s.crashed(executedBy(w, current, late))
	}
	if current != nil {
		for i := range current.requests {
			if q := &current.requests[i]; !q.done {
				w.releasePending(q)
				if q.backlog != nil {
					q.backlog.fail(err)
				}
			}
		}
	}
	for _, q := range late {
		w.releasePending(q)
		if q.backlog != nil {
			q.backlog.fail(err)
		} else {
			q.r.Fail(err)
		}
		q.r.Release()
	}
}

// releasePending releases a request's state byte and a response that was held.
func (w *Worker) releasePending(q *pending) {
	w.down.FreeState(q.state)
	if q.held != nil {
		q.held.Release()
		q.held = nil
	}
}

// send sends a packet. An error means that the process is ending.
func (w *Worker) send(packet []byte) error {
	if _, err := w.p.Socket.Write(packet); err != nil {
		if errors.Is(err, os.ErrClosed) {
			if werr := w.Err(); werr != nil {
				return werr
			}
		}
		return status.Errorf(status.Unavailable, "the process of model instance '%s' does not take requests: %w",
			w.spec.Name, err)
	}
	return nil
}

// logLine logs a line of the model's log.
func (w *Worker) logLine(body []byte) error {
	l, err := frames.ParseLog(body)
	if err != nil {
		return err
	}
	if l.File == "" {
		w.log.Log(context.Background(), l.Level, l.Text)
	} else {
		w.log.Log(context.Background(), l.Level, l.Text, "source", fmt.Sprintf("%s:%d", l.File, l.Line))
	}
	return nil
}

// changeMetrics applies the body of a METRIC frame.
func (w *Worker) changeMetrics(body []byte) error {
	for len(body) > 0 {
		m, rest, err := frames.ParseMetric(body)
		if err != nil {
			return err
		}
		body = rest
		if w.spec.Caller != nil {
			w.spec.Caller.Metric(m.Metric, m.Op, m.Value)
		}
	}
	return nil
}
