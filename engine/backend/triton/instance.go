package triton

import (
	"context"
	"sync"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/infer"
	"nereid/engine/status"
)

// pending is a request that the library has.
type pending struct {
	r *infer.Request
	// The next are guarded by requests.mu.
	c        capi.Request    // the zero value: it is not made yet
	answered bool            // the final response has come
	released bool            // the library has released it
	inside   bool            // the call that gave it to the library has not returned
	held     *infer.Response // of a model that is not decoupled: a response that came before the final flag
	done     func()          // is called once when it is answered and released; nil: nobody waits
	// The next are for the goroutine that handles events.
	report  *infer.Report        // what the library says of it; nil: nothing yet
	final   *infer.Response      // of a model that is not decoupled: it is not sent before the call has returned
	waiting chan *infer.Response // responses that a slow client has no room for; nil: it had room for all so far
	refused bool                 // it had no room for too long: the request is cancelled
	again   bool                 // released inside the call, to be executed again when that has returned
}

// maxWaiting is how many responses may wait for a slow client, beside those in the stream of its request.
const maxWaiting = 1024

// requests are those that the library has, by their number. Safe for concurrent use.
type requests struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*pending // guarded by mu

	decoupled bool // set before the first execution

	// report takes what the library says of executions and responses.
	report func([]infer.Report)

	events  sync.Mutex     // held while events are handled, so that they stay in order
	reports []infer.Report // which are not handed on yet; guarded by events
}

// add adds a request and returns its number.
func (q *requests) add(r *infer.Request, done func()) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	q.open[q.last] = &pending{r: r.Retain(), done: done, inside: true}
	return q.last
}

// Cancelled tells the library that a request is cancelled; see infer.Queue.
func (q *requests) Cancelled(r *infer.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.open {
		if p.r == r {
			p.c.Cancel()
		}
	}
}

// set notes the requests in C's memory.
func (q *requests) set(handles []uint64, made []capi.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, h := range handles {
		p := q.open[h]
		if p.c = made[i]; p.r.Cancelled() {
			p.c.Cancel()
		}
	}
}

// handleEvents hands on what the library has done.
func (q *requests) handleEvents() {
	q.events.Lock()
	defer q.events.Unlock()
	capi.Events(q.handle)
	q.flush()
}

// flush hands on the reports, before the responses that came after them.
func (q *requests) flush() {
	if len(q.reports) > 0 {
		q.report(q.reports)
		q.reports = q.reports[:0]
	}
}

func (q *requests) handle(e capi.Event) {
	q.mu.Lock()
	p := q.open[e.Handle]
	late := p == nil || p.answered && e.Response != nil
	inside := p != nil && p.inside
	q.mu.Unlock()
	switch {
	case e.Report != nil && e.Report.Kind >= infer.Executed:
		q.reports = append(q.reports, *e.Report)
	case e.Report != nil && p != nil:
		p.reported(e.Report)
	case e.Report != nil:
	case late && e.Response != nil:
		e.Response.Drop()
	case late:
	case e.Response != nil:
		q.respond(e.Handle, p, e.Response)
	case e.Reschedule && inside:
		p.again = true // the backend may send a response after it has released the request
	case e.Reschedule:
		q.reschedule(e.Handle, p)
	default:
		q.settle(e.Handle, p, false, true)
	}
}

// returned notes that the call has returned that gave these requests to the library.
func (q *requests) returned(handles []uint64) {
	q.events.Lock()
	defer q.events.Unlock()
	for _, h := range handles {
		q.mu.Lock()
		p := q.open[h]
		if p != nil {
			p.inside = false
		}
		q.mu.Unlock()
		if p != nil && p.again {
			q.reschedule(h, p)
		}
	}
}

// reschedule ends a step of an iterative sequence. The request is executed again, as another one of this process.
func (q *requests) reschedule(handle uint64, p *pending) {
	if p.held != nil {
		p.held.Release()
		p.held = nil
	}
	resp := p.r.NewResponse()
	resp.Final, resp.Again = true, true
	p.c.MoveStates(resp)
	p.r.Reschedule()
	p.send(resp)
	q.settle(handle, p, true, true)
}

// reported notes what the library says of a request. That comes before the release, and may come after the final
// response: then the response has it nevertheless, unless the model is decoupled.
func (p *pending) reported(report *infer.Report) {
	p.report = report
	if p.final != nil {
		p.final.Report = report
	}
}

// respond hands on a response. Flags alone end a stream, or the wait for the flag of a response that came before. It
// does not block: responses to other requests come after this one.
func (q *requests) respond(handle uint64, p *pending, from *capi.Response) {
	q.flush()
	var resp *infer.Response
	switch {
	case from.Empty:
		from.Drop()
	case from.Err != nil:
		resp = p.r.NewResponse()
		resp.Err = from.Err
		from.Drop()
	default:
		resp = p.r.NewResponse()
		from.Move(resp)
	}
	if !q.decoupled {
		resp = p.only(resp, from.Final)
	}
	if resp == nil && from.Final {
		resp = p.r.NewResponse()
		resp.Empty = true
	}
	final := from.Final
	if final && resp.Err == nil {
		p.c.MoveStates(resp)
	}
	if resp != nil {
		resp.Final = final
		if final {
			resp.Report = p.report
		}
		if final && !q.decoupled {
			p.final = resp
		}
		p.send(resp)
	}
	if final {
		q.settle(handle, p, true, false)
	}
}

// send hands on a response, by a goroutine if the client has no room for it. That ends with the final response.
func (p *pending) send(resp *infer.Response) {
	if p.waiting == nil && !p.r.WouldBlock(resp) {
		_ = p.r.Respond(resp) // fails only after the final response
		return
	}
	if p.waiting == nil {
		p.waiting = make(chan *infer.Response, maxWaiting)
		go forward(p.r.Retain(), p.waiting)
	}
	if len(p.waiting) == maxWaiting && !p.refused {
		p.refused = true
		p.r.Cancel() // from now on Respond does not block
	}
	switch {
	case p.refused && !resp.Final:
		resp.Release()
		return
	case p.refused:
		resp.Release()
		resp = p.r.NewResponse()
		resp.Final = true
		resp.Err = status.Errorf(status.Unavailable, "the request was cancelled: more than %d responses waited for "+
			"its client, which must read faster", maxWaiting)
	}
	p.waiting <- resp
}

// forward hands on the responses that come from a channel until the final one or its end, and releases the request.
func forward(r *infer.Request, from <-chan *infer.Response) {
	defer r.Release()
	for resp := range from {
		last := resp.Final
		_ = r.Respond(resp) // fails only after the final response
		if last {
			return
		}
	}
}

// only returns the one response of a request of a model that is not decoupled, when it is final; before, nil.
func (p *pending) only(resp *infer.Response, final bool) *infer.Response {
	switch {
	case resp == nil:
		resp = p.held
	case p.held != nil:
		resp.Release()
		p.held.Release()
		resp = p.r.NewResponse()
		resp.Err = status.New(status.Internal, "the backend sent more than one response to a request, and the model "+
			"is not decoupled; set model_transaction_policy { decoupled: true }")
	}
	p.held = resp
	if !final {
		return nil
	}
	p.held = nil
	if resp == nil {
		resp = p.r.NewResponse()
		resp.Err = status.New(status.Internal, "the backend sent no response to a request, and the model is not "+
			"decoupled; set model_transaction_policy { decoupled: true }")
	}
	return resp
}

// settle notes that a request was answered or released, and forgets it when it was both.
func (q *requests) settle(handle uint64, p *pending, answered, released bool) {
	q.mu.Lock()
	p.answered, p.released = p.answered || answered, p.released || released
	over := p.answered && p.released
	if over {
		delete(q.open, handle)
	}
	q.mu.Unlock()
	if !over {
		return
	}
	p.c.Release()
	p.r.Release()
	if p.done != nil {
		p.done()
	}
}

// instance executes batches.
type instance struct {
	c        *capi.Instance
	requests *requests
	batched  bool

	handles []uint64
}

// Execute gives the library a batch, or each request alone if the model does not batch. It returns when all requests
// are answered and released; for a decoupled model, when the library has taken them.
func (x *instance) Execute(_ context.Context, b *infer.Batch) error {
	if x.batched {
		return x.run(b, b.Requests)
	}
	for i := range b.Requests {
		if err := x.run(b, b.Requests[i:i+1]); err != nil {
			b.Requests[i].Fail(err)
		}
	}
	return nil
}

func (x *instance) run(b *infer.Batch, list []*infer.Request) error {
	var wait sync.WaitGroup
	var done func()
	if !x.requests.decoupled {
		wait.Add(len(list))
		done = wait.Done
	}
	x.c.Begin()
	x.handles = x.handles[:0]
	for _, r := range list {
		h := x.requests.add(r, done)
		r.SetQueue(x.requests)
		x.handles = append(x.handles, h)
		x.c.Add(h, r)
	}
	x.requests.set(x.handles, x.c.Make(len(list)))
	b.MarkInput()
	if err := x.c.Execute(x.requests.decoupled); err != nil {
		x.requests.handleEvents()
		x.requests.forget(x.handles)
		return err
	}
	x.requests.handleEvents()
	x.requests.returned(x.handles)
	b.MarkOutput()
	wait.Wait()
	return nil
}

// forget removes the requests of an execution that failed. The library has not taken them: those that it released
// nevertheless are not released again. Responses that were held are dropped.
func (q *requests) forget(handles []uint64) {
	q.events.Lock() // held and waiting are for those who handle events
	defer q.events.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range handles {
		if p := q.open[h]; p != nil {
			delete(q.open, h)
			if p.held != nil {
				p.held.Release()
			}
			if p.waiting != nil {
				close(p.waiting) // forward ends
			}
			if !p.released && !p.again { // else the backend has given it back
				p.c.Release()
			}
			p.c.Release()
			p.r.Release()
		}
	}
}

// Close finalizes the instance.
func (x *instance) Close() error { return x.c.Close() }
