package grpcapi

import (
	"context"
	"sync"

	"nereid/engine/grpcapi/h2"
	"nereid/engine/infer"
	"nereid/engine/requests"
	"nereid/engine/restrict"
	"nereid/engine/tensor"
	"nereid/engine/trace"
)

// inlineInfer serves ModelInfer as modelInfer does, but without a goroutine for each call. Begin runs on the
// connection's reader, and Resume on its writer when the engine has responded.
type inlineInfer struct {
	s     *Server
	group restrict.Group
}

var _ h2.Inline = inlineInfer{}

// inferCall is the state of one such call.
type inferCall struct {
	r       *infer.Request
	held    *infer.Response // the response to be sent; nil: none has come
	trace   *trace.Trace    // nil: it is not traced
	record  *requests.Active
	left    bool   // the call ended before its answer
	scratch []byte // for an encoded answer
}

var inferCalls = sync.Pool{New: func() any { return &inferCall{scratch: make([]byte, 0, 512)} }}

const inferMethod = "/" + inferenceService + "/ModelInfer"

// Accept checks whether the call is allowed.
func (i inlineInfer) Accept(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = i.s.panicked(inferMethod, p)
		}
	}()
	return i.s.mayCall(ctx, inferMethod, i.group)
}

// Begin decodes the request and passes it to the engine.
func (i inlineInfer) Begin(st *h2.Stream, b *tensor.Buffer) {
	defer func() {
		if p := recover(); p != nil { // what the call holds is left to the garbage collector
			st.Finish(nil, i.s.panicked(inferMethod, p))
		}
	}()
	start := i.s.traceStart()
	m := getMessage(&i.s.pool, i.s.regions)
	m.Receive(b)
	r, refused := m.r, m.err
	a := i.s.record(st.Context(), m.came)
	putMessage(m)
	if refused != nil {
		answered(a, wireError(refused))
		st.Finish(nil, wireError(refused))
		a.Sent()
		return
	}
	a.Attach(r)
	c := inferCalls.Get().(*inferCall)
	c.r, c.record = r, a
	st.Value = c
	r.Notify(st)
	tr, err := i.s.admit(st.Context(), r, start)
	if c.trace = tr; err != nil {
		c.end(st, nil, err)
	}
}

// Resume answers when the final response has come, or cancels the request if the call has ended before.
func (i inlineInfer) Resume(st *h2.Stream) {
	defer func() {
		if p := recover(); p != nil {
			st.Finish(nil, i.s.panicked(inferMethod, p))
		}
	}()
	c := st.Value.(*inferCall)
	if err := st.Err(); err != nil {
		c.r.Cancel()
		c.left = true
		c.end(st, nil, err)
		return
	}
	for {
		resp := c.r.Poll()
		if resp == nil {
			return
		}
		final := resp.Final
		c.held = keep(c.held, resp)
		if final {
			i.answer(st, c)
			return
		}
	}
}

// answer sends the response that the call holds.
func (i inlineInfer) answer(st *h2.Stream, c *inferCall) {
	a, err := i.s.answerOf(c.r, c.held)
	if err != nil {
		c.end(st, nil, err)
		return
	}
	if i.s.compress {
		st.Compress()
	}
	c.end(st, &a, nil)
}

// end finishes the call and releases what it holds.
func (c *inferCall) end(st *h2.Stream, a *answer, err error) {
	c.r.Notify(nil)
	sending(c.trace)
	if c.left {
		c.record.Left()
	} else if err != nil {
		answered(c.record, err)
	}
	if err != nil {
		st.Finish(nil, err)
	} else {
		c.scratch = a.appendMeta(c.scratch[:0])
		if copied, tied := a.rawSizes(); tied == 0 && len(c.scratch)+copied <= maxScratch {
			c.scratch = a.appendRaw(c.scratch)
			answered(c.record, nil)
			st.Finish(c.scratch, nil)
		} else {
			whole := a.encodeAfter(c.scratch)
			answered(c.record, nil)
			st.FinishBuffers(whole, nil)
		}
	}
	c.record.Sent()
	sent(c.trace)
	c.trace.End()
	if c.held != nil {
		c.held.Release()
	}
	c.r.Release()
	if cap(c.scratch) <= 2*maxScratch { // larger after long parameters
		*c = inferCall{scratch: c.scratch}
		inferCalls.Put(c)
	}
}

// maxScratch is the size up to which an answer is encoded into inferCall.scratch and copied from there into the
// connection's output.
const maxScratch = 4 << 10
