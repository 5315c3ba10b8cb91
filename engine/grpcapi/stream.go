package grpcapi

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/infer"
	"nereid/engine/requests"
	"nereid/engine/trace"
)

// streamDepth is the number of unanswered requests of one stream at which the server stops reading from it.
const streamDepth = 1024

// streamCall is one running ModelStreamInfer. Its requests are passed to the engine as they come. The answers of models
// that are not decoupled are sent in the order of the requests, those of decoupled models in the order in which the
// models send them: a request to a decoupled model does not enter the queue, and is a flow, also if it is refused.
type streamCall struct {
	s      *Server
	ctx    context.Context // ends with the call
	cancel context.CancelCauseFunc
	stream grpc.ServerStream
	// strict: the first error ends the stream with its status, in place of an error_message.
	strict bool

	slots chan struct{}   // one per unanswered request
	queue chan streamItem // capacity streamDepth: with slots, a send never blocks

	mu      sync.Mutex
	ended   bool           // guarded by mu; no worker begins any more
	workers sync.WaitGroup // flows and goroutines of decoupled requests; Add only with mu held and ended false

	flows   *flows
	senders sync.WaitGroup // the goroutine of flows

	send sync.Mutex // held while a message is sent
}

// streamItem is a request that the engine has admitted, or the error that answers it.
type streamItem struct {
	r          *infer.Request
	id         string // for the error
	err        error
	decoupled  bool // the request is to a decoupled model
	emptyFinal bool
	trace      *trace.Trace // nil: it is not traced
	record     *requests.Active
}

// left records that the client takes no more answers. An error that it had before, perhaps the one that ends the call,
// stays on record.
func (it *streamItem) left() {
	if !it.record.Answered() {
		it.record.Left()
	}
}

// modelStreamInfer answers ModelStreamInfer.
func (s *Server) modelStreamInfer(ctx context.Context, stream grpc.ServerStream) error {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &streamCall{
		s: s, ctx: ctx, cancel: cancel, stream: stream,
		slots: make(chan struct{}, streamDepth),
		queue: make(chan streamItem, streamDepth),
	}
	c.flows = newFlows(c)
	s.compressAnswers(ctx)
	if v := metadata.ValueFromIncomingContext(ctx, "triton_grpc_error"); len(v) > 0 {
		c.strict = v[0] == "true"
	}
	s.receivers.Add(1)
	go func() {
		defer s.receivers.Done()
		c.receive()
	}()
	err := c.answer()
	cancel(err) // the receiver ends when ctx or the call ends
	c.wait()
	c.senders.Wait()
	return err
}

// wait waits for the workers. None begins later.
func (c *streamCall) wait() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.workers.Wait()
}

// add adds a worker. It returns false if none begins any more.
func (c *streamCall) add() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.workers.Add(1)
	return true
}

// work answers a request on another goroutine, to a model that has become decoupled meanwhile. It returns false if no
// worker begins any more.
func (c *streamCall) work(it streamItem) bool {
	if !c.add() {
		return false
	}
	go func() {
		defer c.workers.Done()
		defer c.rescue()
		if err := c.one(it); err != nil {
			c.cancel(err)
		}
	}()
	return true
}

// rescue turns a panic of one of the call's goroutines into the failure of the call.
func (c *streamCall) rescue() {
	if p := recover(); p != nil {
		c.cancel(c.s.panicked("ModelStreamInfer", p))
	}
}

// receive reads requests until the client has sent all, and closes the queue. A panic cancels the call before the queue
// is closed: if the queue is closed and the call is not cancelled, the stream ends without an error.
func (c *streamCall) receive() {
	defer close(c.queue)
	defer c.rescue()
	for {
		select {
		case c.slots <- struct{}{}:
		case <-c.ctx.Done():
			return
		}
		start := c.s.traceStart()
		m := getMessage(&c.s.pool, c.s.regions)
		err := c.stream.RecvMsg(m)
		it := streamItem{r: m.r, id: m.id, err: m.err, emptyFinal: m.emptyFinal}
		came, model := m.came, m.model
		putMessage(m)
		if err != nil {
			if it.r != nil {
				it.r.Release()
			}
			if !errors.Is(err, io.EOF) {
				c.cancel(err)
			}
			return
		}
		it.record = c.s.record(c.ctx, came)
		if it.r != nil {
			it.record.Attach(it.r)
			it.trace = c.s.sample(c.ctx, it.r, start)
			if c.admit(&it) {
				continue
			}
		} else {
			it.decoupled = c.s.decoupledModel(model, infer.LatestVersion)
		}
		if !c.place(it) {
			c.queue <- it
		}
	}
}

// place passes a request to a decoupled model that is no flow to what answers it. It returns false for other requests,
// and if the call has ended.
func (c *streamCall) place(it streamItem) bool {
	switch {
	case !it.decoupled:
		return false
	case it.r == nil:
		return c.flows.refuse(it)
	}
	return c.work(it)
}

// admit passes a request to the engine. It returns true if the request is a flow now, which the caller has nothing more
// to do with. Otherwise it completes the item.
func (c *streamCall) admit(it *streamItem) bool {
	taken := false
	err := c.s.forward(c.ctx, it.r)
	if err == nil {
		taken, err = c.flows.infer(*it)
	}
	if err != nil {
		it.id, it.err = strings.Clone(it.r.ID), err
		it.decoupled = c.s.decoupled(it.r)
		it.r.Release()
		it.r = nil
		return false
	}
	if taken {
		it.r.Release()
		return true
	}
	it.decoupled = it.r.Served.Decoupled()
	return false
}

// answer sends the answers. It returns when all are sent, the client leaves, the server stops, or a strict stream has
// an error.
func (c *streamCall) answer() error {
	defer c.abandon()
	closing := c.s.closing
	for {
		select {
		case it, ok := <-c.queue:
			if !ok {
				c.wait()
				return c.end()
			}
			if err := c.one(it); err != nil {
				return err
			}
		case <-c.ctx.Done():
			return c.end()
		case <-closing:
			return c.drain()
		}
	}
}

// drain answers the requests that have been received and ends the stream, for a shutdown.
func (c *streamCall) drain() error {
	for {
		select {
		case it, ok := <-c.queue:
			if !ok {
				c.wait()
				return c.end()
			}
			if err := c.one(it); err != nil {
				return err
			}
			continue
		default:
		}
		c.wait()
		if err := c.end(); err != nil {
			return err
		}
		return errStopping()
	}
}

// end returns why the stream ends, nil if all requests were received and answered.
func (c *streamCall) end() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return wireError(context.Cause(c.ctx))
}

// abandon cancels the requests that will not be answered. It runs after the last answer; the receiver then stops at the
// next message.
func (c *streamCall) abandon() {
	c.cancel(context.Canceled)
	c.s.receivers.Add(1)
	go func() { // the receiver may still be in RecvMsg, which ends with the call
		defer c.s.receivers.Done()
		for it := range c.queue {
			if it.r != nil {
				it.r.Cancel()
				it.r.Release()
			}
			it.trace.End()
			it.record.Left()
			it.record.Sent()
		}
	}()
}

// one answers a request.
func (c *streamCall) one(it streamItem) error {
	defer c.done()
	if it.r != nil {
		defer it.r.Release()
	}
	defer it.trace.End()
	defer it.record.Sent()
	if it.r == nil {
		return c.refuse(it)
	}
	if it.decoupled {
		return c.several(it)
	}
	resp, err := singleResponse(c.ctx, it.r)
	if err != nil {
		it.record.Left()
		return c.end()
	}
	defer resp.Release()
	sending(it.trace)
	defer sent(it.trace)
	return c.respond(it, resp, true)
}

func (c *streamCall) done() { <-c.slots }

// refuse answers a request that the engine has not admitted.
func (c *streamCall) refuse(it streamItem) error {
	return c.fail(it.record, it.err, &answer{id: it.id, noFinal: true})
}

// several sends the responses to a request to a decoupled model that is no flow.
func (c *streamCall) several(it streamItem) error {
	for {
		resp, err := next(c.ctx, it.r)
		if err != nil {
			it.left()
			return c.end()
		}
		final, err := c.pass(it, resp)
		if err != nil {
			it.left()
			it.r.Cancel()
			return err
		}
		if final {
			return nil
		}
	}
}

// pass sends a response of a decoupled model and releases it. final says that it was the last one.
func (c *streamCall) pass(it streamItem, resp *infer.Response) (final bool, err error) {
	defer resp.Release()
	final = resp.Final
	if !resp.Empty {
		sending(it.trace)
		defer sent(it.trace)
		return final, c.respond(it, resp, final)
	}
	if !it.record.Answered() { // otherwise a response was an error
		answered(it.record, nil)
	}
	if it.emptyFinal {
		err = c.write(&answer{
			stream: true, model: it.r.ModelName, version: askedVersion(it.r), id: it.r.ID, final: true,
		})
	}
	return final, err
}

// respond sends one response to a request.
func (c *streamCall) respond(it streamItem, resp *infer.Response, final bool) error {
	r := it.r
	err := resp.Err
	if err == nil {
		err = shape(r, resp)
	}
	if err != nil {
		return c.fail(it.record, err, &answer{model: r.ModelName, version: askedVersion(r), id: r.ID, final: final})
	}
	if final && !it.record.Answered() { // otherwise an earlier response was an error
		answered(it.record, nil)
	}
	return c.write(&answer{
		stream: true, model: r.Served.Name(), version: r.Served.VersionText(), id: r.ID, resp: resp, final: final,
		memory: c.s.pool.Budget,
	})
}

const streamMethod = "/" + inferenceService + "/ModelStreamInfer"

// askedVersion returns the version that the client named, "" if it named none. Triton has it in messages without
// outputs.
func askedVersion(r *infer.Request) string {
	if r.Version == infer.LatestVersion {
		return ""
	}
	return strconv.FormatInt(r.Version, 10)
}

// fail answers with an error: a message, or the end of a strict stream. As in Triton, the message of a request that the
// engine has not admitted has no more than its id; that of another one has the model and the final flag.
func (c *streamCall) fail(record *requests.Active, err error, a *answer) error {
	answered(record, wireError(err))
	if c.strict {
		return wireError(err)
	}
	c.s.refused(streamMethod, clientOf(c.ctx), grpcstatus.Convert(wireError(err)), true)
	a.stream, a.err = true, validText(err.Error())
	return c.write(a)
}

func (c *streamCall) write(a *answer) error {
	c.send.Lock()
	defer c.send.Unlock()
	return c.stream.SendMsg(a.encode())
}
