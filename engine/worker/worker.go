package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Hello is what a worker says of itself.
type Hello struct {
	Protocol int               `json:"protocol"`
	PID      int               `json:"pid"`
	Runtime  string            `json:"runtime"`
	Versions map[string]string `json:"versions"`
	Error    string            `json:"error"`
}

// Worker is one process that executes a model instance. Execute is called by one goroutine at a time; all else is safe for
// concurrent use.
type Worker struct {
	spec    Spec
	log     *slog.Logger
	p       *process
	arena   *arena
	out     *output
	hello   Hello
	enc     encoder // Execute's
	exec    execution
	in      inbox   // the reader's
	moments moments // its own
	pool    tensor.Pool

	running atomic.Uint64 // the execution under way; 0: none
	served  atomic.Bool   // a batch has been executed to its end

	questions atomic.Int32 // calls up under way, without those of models

	mu      sync.Mutex
	cur     *execution             // guarded by mu, as is all below; nil: nothing is executed
	late    map[uint64]*live       // requests whose execution is over, by ticket
	calls   map[uint64]chan []byte // replies that are awaited
	bls     map[uint64]*asked      // the worker's requests to other models, by its call number
	numbers struct{ ticket, exec, call uint64 }
	reading bool  // somebody reads the worker's frames: see turn.go
	broken  error // what a reader that stands in for life found; nil: the end of the stream
	closed  bool  // nothing more is sent
	err     error // why it ended

	gone chan struct{} // capacity 1: a reader that stands in for life found the end
	// Of who reads:
	buf      []byte
	finishes int // executions that are over

	greeted chan struct{} // closed after HELLO
	dead    chan struct{} // closed when the process has ended and all that it owed is answered
	tasks   sync.WaitGroup
	outs    sync.WaitGroup // of what reads its output
	spills  sync.WaitGroup // at a reader's pace, and not the process's matter any more
}

// live is a request that the worker has.
type live struct {
	r      *infer.Request
	ticket uint64
	state  uint32
	done   bool            // its final response has come
	held   *infer.Response // of a model that is not decoupled: a response that came before FINAL
	spill  *spill
	origin *infer.Origin // of the calls made for its sake that its execution waits for; nil: none was
	loose  *infer.Origin // of the others
}

// Start starts a worker and waits for its hello. Errors: NotFound when the program is not there, Internal when it ends or
// does not answer, Unsupported outside Linux; ctx's when that ends first.
func (l *Launcher) Start(ctx context.Context, s Spec) (*Worker, error) {
	s.Arena, s.Grow = cmp.Or(s.Arena, 1<<20), cmp.Or(s.Grow, 1<<20)
	s.Arena = (s.Arena + slotHeader - 1) &^ (slotHeader - 1)
	s.StartTimeout = cmp.Or(s.StartTimeout, 30*time.Second)
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	p, err := l.spawn(&s)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		spec: s, log: s.Log, p: p, arena: newArena(p.down, s.Grow), out: newOutput(s.Log),
		late: map[uint64]*live{}, calls: map[uint64]chan []byte{}, bls: map[uint64]*asked{},
		greeted: make(chan struct{}), dead: make(chan struct{}), gone: make(chan struct{}, 1), buf: make([]byte, maxPacket+1), reading: true,
	}
	w.enc.arena = w.arena
	w.moments = newMoments()
	w.exec.done = make(chan struct{}, 1)
	w.in = inbox{up: p.up, down: w.arena, pool: &w.pool, sigs: signatures{}}
	for i, stream := range []string{"stdout", "stderr"} {
		w.outs.Go(func() { w.out.read(p.outputs[i], stream) })
	}
	l.enroll(w, true)
	ended := make(chan string, 1)
	w.tasks.Go(func() {
		_, how := p.wait()
		p.hangUp() // a process of its own that has left its group may still have the other end
		ended <- how
	})
	w.tasks.Go(func() { w.life(ended) })
	if err := w.greet(ctx); err != nil {
		w.Kill()
		return nil, err
	}
	return w, nil
}

func (w *Worker) greet(ctx context.Context) error {
	timeout := time.NewTimer(w.spec.StartTimeout)
	defer timeout.Stop()
	select {
	case <-w.greeted:
	case <-w.dead:
		return w.startError(w.Err())
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return status.Errorf(status.Internal, "the process of model instance '%s' (%s) did not answer within %v", w.spec.Name, w.spec.Command[0], w.spec.StartTimeout)
	}
	switch {
	case w.hello.Error != "":
		return status.Errorf(status.Internal, "the process of model instance '%s' (%s) cannot work: %s", w.spec.Name, w.spec.Command[0], w.hello.Error)
	case w.hello.Protocol != Version:
		return status.Errorf(status.Internal, "the process of model instance '%s' speaks version %d of the worker protocol, the server %d", w.spec.Name, w.hello.Protocol, Version)
	}
	return nil
}

// startError adds to why a worker ended what it wrote last.
func (w *Worker) startError(err error) error {
	if tail := w.out.last(); tail != "" {
		return status.Errorf(status.CodeOf(err), "%w; its last output:\n%s", err, tail)
	}
	return err
}

// Hello returns what the worker said of itself.
func (w *Worker) Hello() Hello { return w.hello }

// PID returns the process's number.
func (w *Worker) PID() int { return w.p.pid }

// Done is closed when the process has ended and every request that it had is answered.
func (w *Worker) Done() <-chan struct{} { return w.dead }

// Err returns why the worker ended: Unavailable. nil: it runs.
func (w *Worker) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Executing reports whether the worker has a batch now.
func (w *Worker) Executing() bool { return w.running.Load() != 0 }

// Executed reports whether the worker has executed a batch to its end.
func (w *Worker) Executed() bool { return w.served.Load() }

// InputBuffer returns n bytes of the memory that is shared with the worker, for an input of a request that may be executed
// there; nil: there is no room, or the worker has ended.
func (w *Worker) InputBuffer(n int) *tensor.Buffer {
	if !w.hold() {
		return nil
	}
	defer w.p.down.release()
	return w.arena.reserve(n)
}

// SharedBytes returns the size of the memory that is shared with the worker.
func (w *Worker) SharedBytes() int64 { return w.p.down.size.Load() + w.p.up.size.Load() }

// Kill ends the process at once and waits until all is answered and given back. It may be called more than once.
func (w *Worker) Kill() {
	_ = w.p.proc.Kill() // it may have ended
	<-w.dead
	w.tasks.Wait()
}

// Close asks the worker to finalize and ends it, by force when ctx ends. The error is that of the model's finalize.
func (w *Worker) Close(ctx context.Context) error {
	err := w.Call(ctx, "finalize", nil, nil)
	if w.Err() != nil {
		err = nil // it had ended before: whoever watches Done knows
	} else if err == nil {
		select {
		case <-w.dead:
		case <-ctx.Done():
		}
	}
	w.Kill()
	w.spills.Wait()
	return err
}

// lastWordsIn is how long the output of a worker that has ended is read at most: a process that it left behind may still
// have it open.
const lastWordsIn = 2 * time.Second

// life reads what the worker sends until it ends, then settles all that it owed.
func (w *Worker) life(ended <-chan string) {
	err := w.read()
	_ = w.p.proc.Kill() // who does not speak any more, or not so that we understand, is not let live
	how := <-ended
	if left := w.unsent(); left != nil {
		w.log.Warn("answers that a model's process had not sent when it ended cannot be read", "err", left)
	}
	if err == nil {
		err = status.Errorf(status.Unavailable, "the process of model instance '%s' ended while it had the request: %s", w.spec.Name, how)
	} else {
		err = status.Errorf(status.Unavailable, "the process of model instance '%s' was ended: %w", w.spec.Name, err)
	}
	w.settle(err)
	w.p.l.enroll(w, false)
	w.p.drain(time.Now().Add(lastWordsIn))
	w.outs.Wait()
	w.p.close()
	close(w.dead)
}

// settle fails everything that waits for the worker.
func (w *Worker) settle(err error) {
	w.mu.Lock()
	w.closed, w.err = true, err
	late, calls, bls := w.late, w.calls, w.bls
	w.late, w.calls, w.bls = map[uint64]*live{}, map[uint64]chan []byte{}, map[uint64]*asked{}
	cur := w.cur
	w.cur = nil
	w.mu.Unlock()
	w.running.Store(0)
	for _, c := range bls {
		c.r.Cancel()
		c.r.Release()
	}
	for _, c := range calls {
		close(c)
	}
	if cur != nil {
		for i := range cur.lives {
			if l := &cur.lives[i]; !l.done {
				w.drop(l)
				if l.spill != nil {
					l.spill.fail(err)
				}
			}
		}
	}
	for _, l := range late {
		w.drop(l)
		if l.spill != nil {
			l.spill.fail(err)
		} else {
			l.r.Fail(err)
		}
		l.r.Release()
	}
}

// drop gives back what a request has of the worker.
func (w *Worker) drop(l *live) {
	w.arena.dropState(l.state)
	if l.held != nil {
		l.held.Release()
		l.held = nil
	}
}

// readOne reads a frame and handles it. io.EOF is the end of the stream; another error is a frame that cannot be.
func (w *Worker) readOne() error {
	n, err := w.p.socket.Read(w.buf)
	if errors.Is(err, syscall.ECONNRESET) && lastFrames { // said once, where it left frames of ours unread when it ended; its own come after that
		n, err = w.p.socket.Read(w.buf)
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return io.EOF
	case err != nil:
		return status.Errorf(status.Internal, "reading from it failed: %w", err)
	case n > maxPacket:
		return status.Errorf(status.Internal, "it sent a packet of more than %d bytes", maxPacket)
	}
	h, body, err := parsePacket(w.buf[:n])
	if err == nil && h.flags&flagFar != 0 {
		body, err = w.far(body)
	}
	if err == nil {
		w.in.next(body)
		err = w.handle(h, body)
		w.in.end()
	}
	return err
}

// far copies a body that lies in the up arena.
func (w *Worker) far(where []byte) ([]byte, error) {
	c := cursor{b: where}
	at, n := c.u64(), c.u64()
	if c.bad || n > 1<<31 {
		return nil, errFrame
	}
	b, ok := w.p.up.view(at, n)
	if !ok {
		return nil, status.Errorf(status.Internal, "it sent a frame of %d bytes at %d, where there is nothing", n, at)
	}
	w.in.copy = w.pool.Get(len(b))
	copy(w.in.copy.Bytes(), b)
	w.p.up.free(int64(at))
	return w.in.copy.Bytes(), nil
}

func (w *Worker) handle(h header, body []byte) error {
	switch h.kind {
	case kindResponses:
		return w.responses(h, body)
	case kindBLS:
		return w.beginBLS(h.id, body)
	case kindBLSCancel:
		w.cancelBLS(h.id)
	case kindBLSWait:
		return w.waitsBLS(h.id, body)
	case kindReply:
		w.mu.Lock()
		c := w.calls[h.id]
		delete(w.calls, h.id)
		w.mu.Unlock()
		if c != nil {
			c <- append([]byte(nil), body...)
		}
	case kindCall:
		if w.questions.Add(1) > mostQuestions {
			return status.Errorf(status.Internal, "it makes more than %d calls at once", mostQuestions)
		}
		text := append([]byte(nil), body...)
		w.tasks.Go(func() {
			defer w.questions.Add(-1)
			w.answerCall(h.id, text)
		})
	case kindLog:
		return w.logged(body)
	case kindMetric:
		for len(body) > 0 {
			m, rest, err := parseMetric(body)
			if err != nil {
				return err
			}
			body = rest
			if w.spec.Caller != nil {
				w.spec.Caller.Metric(m.metric, m.op, m.value)
			}
		}
	case kindHello:
		select {
		case <-w.greeted:
			return status.New(status.Internal, "it said hello twice")
		default:
		}
		if err := json.Unmarshal(body, &w.hello); err != nil {
			return status.Errorf(status.Internal, "its hello is not understood: %w", err)
		}
		close(w.greeted)
	default:
		return status.Errorf(status.Internal, "it sent a frame of the unknown kind %d", h.kind)
	}
	return nil
}

// send sends a packet. An error means that the worker is ending.
func (w *Worker) send(packet []byte) error {
	if _, err := w.p.socket.Write(packet); err != nil {
		if errors.Is(err, os.ErrClosed) {
			if werr := w.Err(); werr != nil {
				return werr
			}
		}
		return status.Errorf(status.Unavailable, "the process of model instance '%s' does not take requests: %w", w.spec.Name, err)
	}
	return nil
}

// sendJSON sends a CALL or a REPLY.
func (w *Worker) sendJSON(k kind, id uint64, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return status.Errorf(status.Internal, "a message to a model's process cannot be written: %w", err)
	}
	e := encoder{arena: w.arena}
	e.begin()
	e.buf = append(e.buf, text...)
	if !w.hold() {
		return w.Err()
	}
	defer w.p.down.release()
	packet, err := e.finish(k, 0, id)
	if err == nil {
		err = w.send(packet)
	}
	return err
}

// reply is what any reply may have.
type reply struct {
	Error *string `json:"error"`
	Code  uint32  `json:"code"`
}

// Call asks the worker for something and decodes its reply into into (nil: nobody wants it). args has the members beside
// "op"; nil: there are none. Errors: what the worker answers with its code, Unavailable when it ends, ctx's.
func (w *Worker) Call(ctx context.Context, op string, args map[string]any, into any) error {
	message := map[string]any{"op": op}
	for k, v := range args {
		message[k] = v
	}
	answer := make(chan []byte, 1)
	w.mu.Lock()
	if w.closed {
		defer w.mu.Unlock()
		return w.err
	}
	w.numbers.call++
	id := w.numbers.call
	w.calls[id] = answer
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.calls, id)
		w.mu.Unlock()
	}()
	if err := w.sendJSON(kindCall, id, message); err != nil {
		return err
	}
	select {
	case text, ok := <-answer:
		if !ok {
			<-w.dead // then its last output has been read
			return w.startError(w.Err())
		}
		return decodeReply(op, text, into)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func decodeReply(op string, text []byte, into any) error {
	var r reply
	if err := json.Unmarshal(text, &r); err != nil {
		return status.Errorf(status.Internal, "the reply to '%s' of a model's process is not understood: %w", op, err)
	}
	if r.Error != nil {
		return status.New(codeOf(r.Code), *r.Error)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return status.Errorf(status.Internal, "the reply to '%s' of a model's process is not understood: %w", op, err)
	}
	return nil
}

// answerCall answers a call up.
func (w *Worker) answerCall(id uint64, text []byte) {
	var head struct {
		Op string `json:"op"`
	}
	var v any
	err := json.Unmarshal(text, &head)
	switch {
	case err != nil:
		err = status.Errorf(status.Internal, "a call is not understood: %w", err)
	case w.spec.Caller == nil:
		err = status.Errorf(status.Unsupported, "this process may not call '%s'", head.Op)
	default:
		v, err = w.spec.Caller.Call(w.context(), head.Op, text)
	}
	if err != nil {
		v = map[string]any{"error": err.Error(), "code": uint32(status.CodeOf(err))}
	} else if v == nil {
		v = struct{}{}
	}
	if err := w.sendJSON(kindReply, id, v); err != nil {
		w.log.Debug("a reply did not reach a model's process", "err", err)
	}
}

// context returns one that ends with the worker.
func (w *Worker) context() context.Context { return lifetime{context.Background(), w} }

// lifetime is a context that ends with a worker.
type lifetime struct {
	context.Context
	w *Worker
}

func (l lifetime) Done() <-chan struct{} { return l.w.dead }

func (l lifetime) Err() error {
	select {
	case <-l.w.dead:
		return context.Canceled
	default:
		return nil
	}
}

// levels are those of LOG.
var levels = [...]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}

func (w *Worker) logged(body []byte) error {
	l, err := parseLog(body)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if int(l.level) < len(levels) {
		level = levels[l.level]
	}
	if l.file == "" {
		w.log.Log(context.Background(), level, l.text)
	} else {
		w.log.Log(context.Background(), level, l.text, "source", fmt.Sprintf("%s:%d", l.file, l.line))
	}
	return nil
}

// Trim gives memory back that is not in use.
func (w *Worker) Trim(ctx context.Context) error {
	if !w.hold() {
		return w.Err()
	}
	w.arena.trim()
	w.p.down.release()
	return w.Call(ctx, "trim", nil, nil)
}

// Configure says what a worker that has started without a model's whole configuration executes from now on: see Spec. It
// is called before the first Execute.
func (w *Worker) Configure(name string, decoupled bool, outputs map[string]tensor.DataType) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spec.Name, w.spec.Decoupled, w.spec.Outputs = name, decoupled, outputs
}
