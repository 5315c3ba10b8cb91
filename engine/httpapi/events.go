package httpapi

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/infer"
	"nereid/engine/refusals"
	"nereid/engine/status"
)

const typeEvents = "text/event-stream; charset=utf-8"

// encoder appends one response of r to w.
type encoder func(w *tensorjson.Builder, r *infer.Request, resp *infer.Response) error

// eventStream is the body of a reply whose responses are server-sent events: "data: {…}", then an empty line. The
// HTTP library reads it on the connection's goroutine after the handler returned, so it uses no exchange. It owns its
// request; a client that leaves, or does not read, cancels it.
type eventStream struct {
	s      *Server
	c      *conn
	r      *infer.Request // nil after Close
	encode encoder

	first   *infer.Response // until it is written
	started bool            // a response was written
	failed  bool            // an event was an error
	ended   bool            // the final response was taken
	out     tensorjson.Builder
	rest    []byte // what is left of out
}

var _ io.ReadCloser = (*eventStream)(nil)

// startStream waits for the first response of r, which decides on the status, and makes the rest of the reply a stream.
// It takes the caller's reference to r.
func (s *Server) startStream(x *exchange, r *infer.Request, encode encoder) error {
	e := &eventStream{s: s, c: x.conn, r: r, encode: encode}
	if x.http10 {
		_ = e.Close() // it cancels the request
		return status.New(status.InvalidArg, "a stream of responses needs HTTP/1.1 or later: HTTP/1.0 has no chunks")
	}
	resp, err := s.next(x, r)
	if err != nil {
		_ = e.Close()
		return err
	}
	e.first, x.events = resp, e
	x.empty(200, typeEvents)
	if resp.Err != nil {
		x.status = httpStatus(resp.Err)
	}
	return nil
}

// Read returns the next bytes of the events. It waits for a response if all before it were written.
func (e *eventStream) Read(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			e.s.opt.Log.Error("HTTP stream panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			n, err = 0, fmt.Errorf("httpapi: panic in a stream: %v", v)
		}
	}()
	for len(e.rest) == 0 {
		if err := e.advance(); err != nil {
			return 0, err
		}
	}
	n = copy(p, e.rest)
	if e.rest = e.rest[n:]; len(e.rest) == 0 {
		e.out.Drop()
	}
	return n, nil
}

// advance makes an event of the next response. It returns io.EOF after the last one.
func (e *eventStream) advance() error {
	resp := e.first
	if e.first = nil; resp == nil {
		if e.ended {
			return io.EOF
		}
		var err error
		if resp, err = e.wait(); err != nil {
			return err
		}
	}
	defer resp.Release()
	e.ended = resp.Final
	if isEnd(e.r, resp, e.started) {
		return nil
	}
	e.started = true
	w := &e.out
	w.Start(&e.s.pool, replySize)
	w.Raw("data: ")
	at := len(w.B)
	err := resp.Err
	if err == nil {
		err = e.encode(w, e.r, resp)
	}
	if err != nil {
		e.failed = true
		code := httpStatus(err)
		e.c.record.Answer(code, refusals.HTTPCause(code), err.Error())
		w.B = append(w.B[:at], tensorjson.Error(err.Error())...)
	}
	w.Raw("\n\n")
	e.rest = w.B
	return nil
}

// wait waits for a response. Meanwhile the connection counts as handling: there is no time limit, and the watcher
// checks whether the client is still there.
func (e *eventStream) wait() (*infer.Response, error) {
	e.c.enter(handling)
	defer e.c.enter(writing)
	resp, err := e.r.Next(e.c)
	if err == nil {
		return resp, nil
	}
	if e.s.lifetime().Err() != nil {
		return nil, status.New(status.Unavailable, "the server is shutting down")
	}
	return nil, context.Canceled
}

// Close releases the request. A request that has not ended is cancelled.
func (e *eventStream) Close() error {
	if e.r == nil {
		return nil
	}
	e.out.Drop()
	if e.first != nil {
		e.ended = e.first.Final
		e.first.Release()
		e.first = nil
	}
	switch {
	case !e.ended:
		e.r.Cancel()
		e.c.record.Left()
	case !e.failed:
		e.c.record.Answer(200, "", "")
	}
	e.r.Release()
	e.r = nil
	return nil
}
