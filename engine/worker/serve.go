package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
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
	enc     frames.Encoder
	dec     *frames.Decoder
	pool    tensor.Pool
	handler Handler
	// Of the execution under way, or the last one.
	requests  []*infer.Request
	tickets   []uint64
	responses []*infer.Response
	timer     *time.Timer

	mu      sync.Mutex
	batch   *infer.Batch // guarded by mu, as are the next; nil: nothing is executed
	states  []uint32     // indexes of the state bytes of the batch's requests
	ticking bool
	idle    bool // nothing began since the last tick
}

// newServer returns a server without a socket.
func newServer(down *arena.Mapping, up *arena.Arena) *server {
	s := &server{down: down, up: up, enc: frames.Encoder{Arena: up, ToServer: true}}
	s.dec = frames.NewProcessDecoder(down, &s.pool)
	s.timer = time.AfterFunc(time.Hour, s.checkCancelled)
	s.timer.Stop()
	return s
}

// checkCancelled cancels the requests of the execution under way for which no client waits any more.
func (s *server) checkCancelled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.batch == nil && s.idle {
		s.ticking = false
		return
	}
	s.idle = true
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
		n, err := s.socket.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read from the server: %w", err)
		}
		if n == 0 {
			return io.EOF
		}
		if last, err := s.handle(ctx, buf[:n]); last || err != nil {
			return err
		}
	}
}

// handle handles one frame. last: it was finalize.
func (s *server) handle(ctx context.Context, packet []byte) (last bool, err error) {
	defer s.dec.Close()
	h, body, err := s.dec.Open(packet)
	if err != nil {
		return false, err
	}
	switch h.Kind {
	case frames.KindCall:
		return s.call(ctx, h.ID, body)
	case frames.KindExecute:
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
	s.enc.Begin()
	s.enc.Bytes(text)
	return s.send(k, 0, id)
}

// send sends the frame that was encoded.
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
	if len(b.Requests) > 0 {
		b.Begin()
		s.begin(b)
		err = s.handler.Execute(ctx, b)
		s.end()
		b.End()
	} else {
		b.Recycle()
	}
	if err == nil {
		err = status.New(status.Internal, "the model gave no answer")
	}
	s.responses = s.responses[:0]
	for _, r := range s.requests {
		r.Fail(err) // unless it has its response
		s.responses = append(s.responses, r.Poll())
	}
	err = s.respond(id)
	for i, r := range s.requests {
		s.responses[i].Release()
		r.Release()
		s.responses[i], s.requests[i] = nil, nil
	}
	return err
}

// respond sends the responses of an execution in one frame, or why that cannot be done.
func (s *server) respond(id uint64) error {
	s.enc.Begin()
	s.enc.Responses(len(s.responses))
	for i, resp := range s.responses {
		if err := s.enc.Response(resp, s.tickets[i]); err != nil {
			s.enc.Drop()
			s.enc.Begin()
			s.enc.Failure(err)
			break
		}
	}
	return s.send(frames.KindResponses, frames.FlagDone, id)
}

// decode makes a batch of an EXECUTE. Requests with invalid tensors are answered and not in it.
func (s *server) decode(body []byte) (*infer.Batch, error) {
	b := infer.NewBatch()
	s.requests, s.tickets, s.states = s.requests[:0], s.tickets[:0], s.states[:0]
	err := s.dec.Requests(body, func(ticket uint64, state uint32, r *infer.Request, err error) {
		s.tickets, s.requests = append(s.tickets, ticket), append(s.requests, r)
		if err != nil {
			r.Fail(err)
			return
		}
		s.states = append(s.states, state)
		b.Requests = append(b.Requests, r)
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}
