package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker/arena"
	"nereid/engine/worker/frames"
)

// Handler does what the server asks, in a process that is written in Go. Its methods are called one at a time.
type Handler interface {
	// Call answers a call of the server; args is the whole message. The result is the reply, as JSON; nil: an empty
	// one. "finalize" is the last call.
	Call(ctx context.Context, op string, args json.RawMessage) (any, error)
	// Execute is that of backend.Instance: every request has its one final response when it returns, or the error
	// answers it. Requests have no Served; the handler sets BatchSize.
	Execute(ctx context.Context, b *infer.Batch) error
}

// Streamer is a Handler whose requests may be answered during and after their execution, and any number of times.
type Streamer interface {
	Handler
	// Streams reports whether that holds for the executions from now on.
	Streams() bool
}

// Serve is the main function of a process that is written in Go: it says hello and does what the server asks, until
// "finalize". The error io.EOF means that the server has ended. The process must have been started by a Launcher.
func Serve(ctx context.Context, hello frames.Hello, h Handler) error {
	if os.Getenv(versionVar) != fmt.Sprint(frames.Version) {
		return status.New(status.InvalidArg,
			"this is what a server starts for a model in a separate process; it does nothing by itself")
	}
	s, err := connect()
	if err != nil {
		return err
	}
	s.handler = h
	if c, ok := h.(Connector); ok {
		c.Connect(&Peer{s})
	}
	hello.Protocol, hello.PID = frames.Version, os.Getpid()
	if err := s.sendJSON(frames.KindHello, 0, hello); err != nil {
		return err
	}
	return s.run(ctx)
}

// server is the process's side of the protocol.
type server struct {
	socket  *os.File
	down    *arena.Mapping // requests come in it
	up      *arena.Arena   // responses go in it
	dec     *frames.Decoder
	pool    tensor.Pool
	handler Handler
	answers []answer // of the execution under way, or the last one
	timer   *time.Timer

	sending sync.Mutex
	enc     frames.Encoder // guarded by sending

	mu      sync.Mutex
	batch   *infer.Batch              // guarded by mu, as are the next; nil: nothing is executed
	states  []uint32                  // indexes of the state bytes of the batch's requests
	late    map[*infer.Request]uint32 // those of a Streamer without a final response, with their state bytes
	ticking bool
	idle    bool // nothing began since the last tick

	asked  questions     // what this process asks the server
	levels atomic.Uint32 // the frames.Levels of the server's log, as far as is known
}

// answer is a request and a response to it. nil: there is none yet.
type answer struct {
	r      *infer.Request
	ticket uint64
	state  uint32
	resp   *infer.Response
	sent   chan struct{} // of a Streamer: closed when all responses are sent
}

// newServer returns a server without a socket.
func newServer(down *arena.Mapping, up *arena.Arena) *server {
	s := &server{down: down, up: up, enc: frames.Encoder{Arena: up, ToServer: true}, late: map[*infer.Request]uint32{}}
	s.dec = frames.NewProcessDecoder(down, &s.pool)
	s.asked.init(s)
	s.timer = time.AfterFunc(time.Hour, s.checkCancelled)
	s.timer.Stop()
	return s
}

// checkCancelled cancels the requests of the execution under way for which no client waits any more.
func (s *server) checkCancelled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.batch == nil && s.idle && len(s.late) == 0 {
		s.ticking = false
		return
	}
	s.idle = true
	for r, state := range s.late {
		if s.down.StateHas(state, arena.StateCancelled) {
			r.Cancel()
		}
	}
	if s.batch != nil {
		for i, r := range s.batch.Requests {
			if s.down.StateHas(s.states[i], arena.StateCancelled) {
				r.Cancel()
			}
		}
	}
	s.timer.Reset(cancelPoll)
}

func (s *server) begin(b *infer.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch, s.idle = b, false
	s.tick()
}

// tick makes checkCancelled run. s.mu is held.
func (s *server) tick() {
	if !s.ticking {
		s.ticking = true
		s.timer.Reset(cancelPoll)
	}
}

func (s *server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch = nil
}

// run handles frames one after the other.
func (s *server) run(ctx context.Context) error {
	buf := make([]byte, frames.MaxPacket+1)
	for {
		packet, err := s.next(buf)
		if err != nil {
			return err
		}
		if last, err := s.handle(ctx, packet); last || err != nil {
			return err
		}
	}
}

// read reads a packet into buf. io.EOF: the server has ended.
func (s *server) read(buf []byte) ([]byte, error) {
	n, err := s.socket.Read(buf)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read from the server: %w", err)
	}
	if n == 0 {
		return nil, io.EOF
	}
	return buf[:n], nil
}

// handle handles one frame. last: it was finalize.
func (s *server) handle(ctx context.Context, packet []byte) (last bool, err error) {
	if answered, err := s.asked.answer(packet); answered || err != nil {
		return false, err
	}
	defer s.dec.Close()
	h, body, err := s.dec.Open(packet)
	if err != nil {
		return false, err
	}
	switch h.Kind {
	case frames.KindCall:
		return s.call(ctx, h.ID, body)
	case frames.KindExecute:
		s.levels.Store(uint32(h.Flags >> frames.LevelShift))
		return false, s.execute(ctx, h.ID, body)
	}
	return false, status.Errorf(status.Internal,
		"the server sent a frame of kind %d, for which this worker has no use", h.Kind)
}

func (s *server) call(ctx context.Context, id uint64, body []byte) (bool, error) {
	var head struct {
		Op string `json:"op"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return false, err
	}
	if head.Op == "trim" {
		s.up.Trim()
	}
	reply := replyOf(s.handler.Call(ctx, head.Op, append(json.RawMessage(nil), body...)))
	return head.Op == "finalize", s.sendJSON(frames.KindReply, id, reply)
}

func (s *server) sendJSON(k frames.Kind, id uint64, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.sendBytes(k, id, text)
}

// sendBytes sends a frame with this body.
func (s *server) sendBytes(k frames.Kind, id uint64, body []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.enc.Begin()
	s.enc.Bytes(body)
	return s.send(k, 0, id)
}

// send sends the frame that was encoded. s.sending is held.
func (s *server) send(k frames.Kind, flags uint16, id uint64) error {
	packet, err := s.enc.Finish(k, flags, id)
	if err != nil {
		return err
	}
	if _, err := s.socket.Write(packet); err != nil {
		return fmt.Errorf("write to the server: %w", err)
	}
	return nil
}

// execute runs a batch and answers it. An error ends the process: the server does not follow the protocol.
func (s *server) execute(ctx context.Context, id uint64, body []byte) error {
	b, err := s.decode(body)
	if err != nil {
		return err
	}
	st, ok := s.handler.(Streamer)
	streams := ok && st.Streams()
	if streams {
		s.forwardAll(ctx)
	}
	if len(b.Requests) > 0 {
		b.Begin()
		s.begin(b)
		err = s.handler.Execute(ctx, b)
		s.end()
		b.End()
	} else {
		b.Recycle()
	}
	if err == nil && !streams {
		err = status.New(status.Internal, "the model gave no answer")
	}
	for i := range s.answers {
		a := &s.answers[i]
		if err != nil {
			a.r.Fail(err) // unless it has its final response
		}
		if !streams {
			a.resp = a.r.Poll()
		} else if a.r.Rescheduling() { // the server takes that only during the execution
			<-a.sent
		}
	}
	err = s.respond(frames.FlagDone, id, s.answers)
	for i := range s.answers {
		s.answers[i].resp = nil
		s.answers[i].r.Release()
	}
	clear(s.answers)
	return err
}

// forwardAll starts to send the responses of the requests of the next execution, and to watch whether they are
// cancelled. Both go on until their final responses.
func (s *server) forwardAll(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.answers {
		a := &s.answers[i]
		a.sent = make(chan struct{})
		s.late[a.r.Retain()] = a.state
		go s.forward(ctx, *a)
	}
	s.tick()
}

// forward sends the responses of a request during and after its execution. It ends with the final one, or with ctx. A
// response waits while the client reads too slowly.
func (s *server) forward(ctx context.Context, a answer) {
	defer a.r.Release()
	defer close(a.sent)
	for {
		var err error
		if a.resp, err = a.r.Next(ctx); err != nil {
			return
		}
		for s.down.StateHas(a.state, arena.StatePaused) && !a.r.Cancelled() && ctx.Err() == nil {
			time.Sleep(pausePoll)
		}
		last := a.resp.Final
		if last {
			s.mu.Lock()
			delete(s.late, a.r)
			s.mu.Unlock()
		}
		if err := s.respond(0, 0, []answer{a}); err != nil || last {
			return // without a connection the process ends
		}
	}
}

// respond sends responses in one frame, or why that cannot be done, and releases them.
func (s *server) respond(flags uint16, id uint64, answers []answer) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	count := 0
	for i := range answers {
		if answers[i].resp != nil {
			count++
		}
	}
	s.enc.Begin()
	s.enc.Responses(count)
	for i := range answers {
		if answers[i].resp == nil {
			continue
		}
		if err := s.enc.Response(answers[i].resp, answers[i].ticket); err != nil {
			s.enc.Drop()
			s.enc.Begin()
			s.encodeFailure(flags, answers[i].ticket, err)
			break
		}
	}
	err := s.send(frames.KindResponses, flags, id)
	for i := range answers {
		if answers[i].resp != nil {
			answers[i].resp.Release()
		}
	}
	return err
}

// encodeFailure writes why responses cannot be written: for the whole execution, or for a request after it. s.sending
// is held.
func (s *server) encodeFailure(flags uint16, ticket uint64, err error) {
	if flags&frames.FlagDone != 0 {
		s.enc.Failure(err)
		return
	}
	s.enc.Responses(1)
	_ = s.enc.Response(&infer.Response{Err: err, Final: true}, ticket) // an error has no tensors
}

// decode makes a batch of an EXECUTE. Requests with invalid tensors are answered and not in it.
func (s *server) decode(body []byte) (*infer.Batch, error) {
	b := infer.NewBatch()
	s.answers, s.states = s.answers[:0], s.states[:0]
	err := s.dec.Requests(body, func(q frames.Received, err error) {
		s.answers = append(s.answers, answer{r: q.Request, ticket: q.Ticket, state: q.State})
		if err != nil {
			q.Request.Fail(err)
			return
		}
		if q.Trace.On {
			q.Request.Trace = &Trace{s: s, ticket: q.Ticket, Number: q.Trace.Number, Context: q.Trace.Context}
		}
		s.states = append(s.states, q.State)
		b.Requests = append(b.Requests, q.Request)
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}
