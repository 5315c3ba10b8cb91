package worker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"maps"
	"math"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker/frames"
)

// Connector is a Handler that asks the server for something.
type Connector interface {
	// Connect is called once, before the other methods.
	Connect(p *Peer)
}

// Peer is the server, for a process that is written in Go. Its methods are safe for concurrent use.
type Peer struct{ s *server }

// Reserve returns n bytes of shared memory for an output; nil: there is no room. The caller has the one reference.
func (p *Peer) Reserve(n int) *tensor.Buffer { return p.s.up.Reserve(n) }

// Log sends a line of the model's log. file may be empty.
func (p *Peer) Log(level slog.Level, file string, line int, text string) {
	file = file[:min(len(file), 1<<12)]
	n := byte(0)
	switch {
	case level >= slog.LevelError:
		n = 3
	case level >= slog.LevelWarn:
		n = 2
	case level >= slog.LevelInfo:
		n = 1
	}
	body := binary.LittleEndian.AppendUint16([]byte{n, 0}, uint16(len(file)))
	body = binary.LittleEndian.AppendUint32(body, uint32(line))
	body = append(append(body, file...), text...)
	_ = p.s.sendBytes(frames.KindLog, 0, body) // without a connection the process ends
}

// Levels returns the levels that the server's log takes, as the last execution said. SetLevels is for before the first.
func (p *Peer) Levels() frames.Levels { return frames.Levels(p.s.levels.Load()) }

// SetLevels sets what Levels returns.
func (p *Peer) SetLevels(l frames.Levels) { p.s.levels.Store(uint32(l)) }

// Call asks the server for something; see Caller.Call. args has the members beside "op". The reply is decoded into
// into, unless that is nil. Errors: the reply's, ctx's.
func (p *Peer) Call(ctx context.Context, op string, args map[string]any, into any) error {
	message := map[string]any{"op": op}
	maps.Copy(message, args)
	text, err := json.Marshal(message)
	if err != nil {
		return status.Errorf(status.Internal, "%w", err)
	}
	reply := make(chan []byte, 1)
	id := p.s.asked.ask(reply, nil)
	if err := p.s.sendBytes(frames.KindCall, id, text); err != nil {
		return status.Errorf(status.Unavailable, "%w", err)
	}
	select {
	case text := <-reply:
		return decodeReply(op, text, into)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Infer sends a request to another model. The caller reads the responses, of which there may be any number, from r.
func (p *Peer) Infer(r *infer.Request) error {
	q := &p.s.asked
	r.SetQueue(q)
	id := q.ask(nil, r.Retain())
	p.s.sending.Lock()
	defer p.s.sending.Unlock()
	e := &p.s.enc
	e.Begin()
	traced := uint64(0)
	if t, ok := r.Trace.(*Trace); ok {
		traced = t.ticket
	}
	err := e.BLS(r, traced)
	if err == nil {
		err = p.s.send(frames.KindBLS, 0, id)
	}
	if err != nil {
		e.Drop()
		q.mu.Lock()
		delete(q.requests, id)
		q.mu.Unlock()
		r.Release()
	}
	return err
}

// Metric changes a metric that a call has made. op is frames.MetricIncrement, MetricSet or MetricObserve.
func (p *Peer) Metric(metric uint64, op uint32, value float64) {
	body := binary.LittleEndian.AppendUint64(nil, metric)
	body = binary.LittleEndian.AppendUint32(body, op)
	body = binary.LittleEndian.AppendUint32(body, 0)
	body = binary.LittleEndian.AppendUint64(body, math.Float64bits(value))
	_ = p.s.sendBytes(frames.KindMetric, 0, body) // without a connection the process ends
}
