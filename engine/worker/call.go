package worker

import (
	"context"
	"encoding/json"
	"maps"
	"sync/atomic"

	"nereid/engine/status"
	"nereid/engine/worker/frames"
)

// maxCallsUp is how many calls into the server a process may have unanswered, without those of other models.
const maxCallsUp = 1 << 10

// callTable is the JSON calls of a worker both ways.
type callTable struct {
	w    *Worker
	last uint64 // guarded by w.mu: number of the last call to the process
	// guarded by w.mu: calls to the process whose reply is awaited; nil: the process has ended
	waiting map[uint64]chan []byte
	up      atomic.Int32 // calls into the server under way
}

// Call asks the process for something and decodes its reply into into, unless that is nil. args has the members of
// the call beside "op". Errors: the reply's error with its code, Unavailable when the process ends, ctx's.
func (w *Worker) Call(ctx context.Context, op string, args map[string]any, into any) error {
	message := map[string]any{"op": op}
	maps.Copy(message, args)
	c := &w.calls
	reply := make(chan []byte, 1)
	w.mu.Lock()
	if w.closed {
		defer w.mu.Unlock()
		return w.err
	}
	c.last++
	id := c.last
	c.waiting[id] = reply
	w.mu.Unlock()
	defer c.take(id)
	if err := c.send(frames.KindCall, id, message); err != nil {
		return err
	}
	select {
	case text, ok := <-reply:
		if !ok {
			<-w.dead // then its last output has been read
			return w.withOutput(w.Err())
		}
		return decodeReply(op, text, into)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readiness is a question whether the model is ready, for all who ask until the process answers.
type readiness struct {
	done  chan struct{} // closed when the next are set
	Ready bool
	err   error
}

// IsReady asks the process whether its model is ready. While it has not answered, it is not asked again: it would
// answer each question before it executes the next batch. Errors: those of Call.
func (w *Worker) IsReady(ctx context.Context) (bool, error) {
	w.mu.Lock()
	q := w.readiness
	if q == nil && w.closed {
		defer w.mu.Unlock()
		return false, w.err
	}
	if q == nil {
		q = &readiness{done: make(chan struct{})}
		w.readiness = q
		w.tasks.Go(func() {
			q.err = w.Call(context.Background(), "is_ready", nil, q) // until the process ends
			w.mu.Lock()
			w.readiness = nil
			w.mu.Unlock()
			close(q.done)
		})
	}
	w.mu.Unlock()
	select {
	case <-q.done:
		return q.Ready, q.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// take removes the call with this number and returns its channel; nil: there is none.
func (c *callTable) take(id uint64) chan []byte {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	reply := c.waiting[id]
	delete(c.waiting, id)
	return reply
}

// replied hands a reply to the call that waits for it.
func (c *callTable) replied(id uint64, body []byte) {
	if reply := c.take(id); reply != nil {
		reply <- append([]byte(nil), body...)
	}
}

// close ends the calls: the process has ended.
func (c *callTable) close() {
	c.w.mu.Lock()
	waiting := c.waiting
	c.waiting = nil
	c.w.mu.Unlock()
	for _, reply := range waiting {
		close(reply)
	}
}

// send sends a CALL or a REPLY.
func (c *callTable) send(k frames.Kind, id uint64, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return status.Errorf(status.Internal, "a message to a model's process cannot be encoded: %w", err)
	}
	if !c.w.retain() {
		return c.w.Err()
	}
	defer c.w.down.Release()
	e := frames.Encoder{Arena: c.w.down}
	e.Begin()
	e.Bytes(text)
	packet, err := e.Finish(k, 0, id)
	if err == nil {
		err = c.w.send(packet)
	}
	return err
}

func decodeReply(op string, text []byte, into any) error {
	var r struct {
		Error *string `json:"error"`
		Code  uint32  `json:"code"`
	}
	err := json.Unmarshal(text, &r)
	if err == nil && r.Error != nil {
		return status.New(frames.CodeOf(r.Code), *r.Error)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return status.Errorf(status.Internal, "the reply to '%s' of a model's process is not understood: %w", op, err)
	}
	return nil
}

// answer answers a call into the server, on a goroutine. The error is a process that makes too many.
func (c *callTable) answer(id uint64, body []byte) error {
	if c.up.Add(1) > maxCallsUp {
		return status.Errorf(status.Internal, "it makes more than %d calls at once", maxCallsUp)
	}
	text := append([]byte(nil), body...)
	c.w.tasks.Go(func() {
		defer c.up.Add(-1)
		err := c.send(frames.KindReply, id, c.reply(text))
		if err != nil { // the process waits until there is a reply
			err = c.send(frames.KindReply, id, replyOf(nil, err))
		}
		if err != nil {
			c.w.log.Debug("a reply did not reach a model's process", "err", err)
		}
	})
	return nil
}

// reply returns the reply to a call.
func (c *callTable) reply(text []byte) any {
	var head struct {
		Op string `json:"op"`
	}
	var v any
	err := json.Unmarshal(text, &head)
	switch {
	case err != nil:
		err = status.Errorf(status.Internal, "a call is not understood: %w", err)
	case c.w.spec.Caller == nil:
		err = status.Errorf(status.Unsupported, "this process may not call '%s'", head.Op)
	default:
		v, err = c.w.spec.Caller.Call(c.w.ctx, head.Op, text)
	}
	return replyOf(v, err)
}

// replyOf returns what is sent as the reply for the result of a call.
func replyOf(v any, err error) any {
	switch {
	case err != nil:
		return map[string]any{"error": err.Error(), "code": uint32(status.CodeOf(err))}
	case v == nil:
		return struct{}{}
	}
	return v
}
