package worker

import (
	"context"
	"encoding/binary"
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
)

// The descriptors of a worker.
const (
	controlFD = 3 + iota
	downFD
	upFD
)

// Servant does what a server asks, in a worker that is written in Go. Its methods are called one at a time.
type Servant interface {
	// Call answers a call down; args has the whole message. What it returns is the reply, as JSON; nil: an empty one.
	// "finalize" is the last.
	Call(ctx context.Context, op string, args json.RawMessage) (any, error)
	// Execute is as that of backend.Instance: every request has its one final response when it returns, or the error is
	// the answer. It does not see Served, nor BatchSize, which it sets.
	Execute(ctx context.Context, b *infer.Batch) error
}

// Serve is the main function of a worker that is written in Go: it says hello and does what the server asks, until that
// has it finalize. The error io.EOF means that the server is gone. The process must have been started by a Launcher.
func Serve(ctx context.Context, hello Hello, s Servant) error {
	if os.Getenv("NEREID_WORKER") != fmt.Sprint(Version) {
		return status.New(status.InvalidArg, "this is what a server starts for a model in a process of its own; it does nothing by itself")
	}
	p, err := connect()
	if err != nil {
		return err
	}
	p.servant = s
	p.enc = encoder{arena: p.up, place: inUp}
	p.in = inbox{up: p.down, peer: true, pool: &p.pool, sigs: signatures{}}
	p.timer = time.AfterFunc(time.Hour, p.look)
	p.timer.Stop()
	hello.Protocol, hello.PID = Version, os.Getpid()
	if err := p.sendJSON(kindHello, 0, hello); err != nil {
		return err
	}
	return p.run(ctx)
}

// peer is the worker's side of the protocol.
type peer struct {
	socket  *os.File
	down    *mapping // requests come in it
	up      *arena   // responses go in it
	enc     encoder
	in      inbox
	pool    tensor.Pool
	servant Servant
	// Of the execution under way, or the last one: what came, the tickets, and what goes.
	requests []*infer.Request
	tickets  []uint64
	answers  []*infer.Response
	timer    *time.Timer

	mu      sync.Mutex
	batch   *infer.Batch // guarded by mu, as is all below; nil: nothing is executed
	states  []uint32     // indexes of the requests' state bytes
	ticking bool
	idle    bool // nothing began since the last tick
}

// lookEvery is how often the server is asked whether anybody still waits.
const lookEvery = 10 * time.Millisecond

// look notes which requests nobody waits for any more.
func (p *peer) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.batch == nil && p.idle {
		p.ticking = false
		return
	}
	p.idle = true
	if p.batch != nil {
		for i, r := range p.batch.Requests {
			if at := p.states[i]; at < tableSize && p.down.mem[at]&stateCancelled != 0 {
				r.Cancel()
			}
		}
	}
	p.timer.Reset(lookEvery)
}

func (p *peer) begin(b *infer.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batch, p.idle = b, false
	if !p.ticking {
		p.ticking = true
		p.timer.Reset(lookEvery)
	}
}

func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batch = nil
}

// run does what the frames say, one after the other.
func (p *peer) run(ctx context.Context) error {
	buf := make([]byte, maxPacket+1)
	for {
		n, err := p.socket.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read from the server: %w", err)
		}
		if n == 0 {
			return io.EOF
		}
		h, body, err := parsePacket(buf[:n])
		if err == nil && h.flags&flagFar != 0 {
			body, err = p.far(body)
		}
		if err != nil {
			return err
		}
		p.in.next(body)
		last, err := p.handle(ctx, h, body)
		p.in.end()
		if last || err != nil {
			return err
		}
	}
}

// far copies a body that lies in the down arena.
func (p *peer) far(where []byte) ([]byte, error) {
	c := cursor{b: where}
	at, n := c.u64(), c.u64()
	if c.bad || n > 1<<31 {
		return nil, errFrame
	}
	b, ok := p.down.view(at, n)
	if !ok {
		return nil, errFrame
	}
	p.in.copy = p.pool.Get(len(b))
	copy(p.in.copy.Bytes(), b)
	p.down.free(int64(at))
	return p.in.copy.Bytes(), nil
}

// handle does what one frame says; last: it was told to finalize.
func (p *peer) handle(ctx context.Context, h header, body []byte) (last bool, err error) {
	switch h.kind {
	case kindCall:
		return p.call(ctx, h.id, body)
	case kindExecute:
		return false, p.execute(ctx, h.id, body)
	}
	return false, status.Errorf(status.Internal, "the server sent a frame of kind %d, for which this worker has no use", h.kind)
}

func (p *peer) call(ctx context.Context, id uint64, body []byte) (bool, error) {
	var head struct {
		Op string `json:"op"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return false, err
	}
	if head.Op == "trim" {
		p.up.trim()
	}
	v, err := p.servant.Call(ctx, head.Op, append(json.RawMessage(nil), body...))
	if err != nil {
		v = map[string]any{"error": err.Error(), "code": uint32(status.CodeOf(err))}
	} else if v == nil {
		v = struct{}{}
	}
	return head.Op == "finalize", p.sendJSON(kindReply, id, v)
}

func (p *peer) sendJSON(k kind, id uint64, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.enc.begin()
	p.enc.buf = append(p.enc.buf, text...)
	return p.finish(k, 0, id)
}

func (p *peer) finish(k kind, flags uint16, id uint64) error {
	packet, err := p.enc.finish(k, flags, id)
	if err != nil {
		return err
	}
	if _, err := p.socket.Write(packet); err != nil {
		return fmt.Errorf("write to the server: %w", err)
	}
	return nil
}

// execute runs a batch and answers it. An error ends the worker: the server and it do not understand each other.
func (p *peer) execute(ctx context.Context, id uint64, body []byte) error {
	b, err := p.decode(body)
	if err != nil {
		return err
	}
	if len(b.Requests) > 0 {
		b.Begin()
		p.begin(b)
		err = p.servant.Execute(ctx, b)
		p.end()
		b.End()
	} else {
		b.Recycle()
	}
	if err == nil {
		err = status.New(status.Internal, "the model gave no answer")
	}
	p.answers = p.answers[:0]
	for _, r := range p.requests {
		r.Fail(err) // unless it has its answer
		p.answers = append(p.answers, r.Poll())
	}
	err = p.respond(id)
	for i, r := range p.requests {
		p.answers[i].Release()
		r.Release()
		p.answers[i], p.requests[i] = nil, nil
	}
	return err
}

// respond sends the answers of an execution in one frame, or why that cannot be done.
func (p *peer) respond(id uint64) error {
	p.enc.begin()
	p.enc.responsesHead(len(p.answers))
	for i, resp := range p.answers {
		if err := p.enc.responseTo(resp, p.tickets[i]); err != nil {
			p.enc.drop()
			text := err.Error()
			p.enc.begin()
			p.enc.u32(0)
			p.enc.u32(uint32(status.CodeOf(err)) + 1)
			p.enc.u32(uint32(len(text)))
			p.enc.u32(0)
			p.enc.buf = append(p.enc.buf, text...)
			p.enc.pad()
			break
		}
	}
	return p.finish(kindResponses, flagDone, id)
}

// decode makes a batch of an EXECUTE. Requests with tensors that cannot be are answered and not in it.
func (p *peer) decode(body []byte) (*infer.Batch, error) {
	c := cursor{b: body}
	n := c.u32()
	c.u32()
	b := infer.NewBatch()
	p.requests, p.tickets, p.states = p.requests[:0], p.tickets[:0], p.states[:0]
	for range n {
		rec := c.record(64)
		if c.bad {
			return nil, errFrame
		}
		p.tickets = append(p.tickets, binary.LittleEndian.Uint64(rec.b[8:]))
		r := infer.New()
		p.requests = append(p.requests, r)
		if err := p.in.request(&rec, r); err != nil {
			p.skip(&rec)
			r.Fail(err)
			continue
		}
		p.states = append(p.states, binary.LittleEndian.Uint32(rec.b[40:]))
		b.Requests = append(b.Requests, r)
	}
	if n == 0 {
		return nil, errFrame
	}
	return b, nil
}

// skip frees the slots of the tensors that a request still has unread.
func (p *peer) skip(rec *cursor) {
	for !rec.bad && rec.at < len(rec.b) {
		sig, at, err := tensorRecord(rec, p.in.sigs)
		if sig == nil && err != nil {
			return
		}
		p.in.skip(at)
	}
}
