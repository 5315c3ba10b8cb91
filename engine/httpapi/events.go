package httpapi

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"nereid/engine/infer"
	"nereid/engine/status"
)

const typeEvents = "text/event-stream; charset=utf-8"

// encoder writes one response of r.
type encoder func(w *builder, r *infer.Request, resp *infer.Response) error

// eventStream is the body of a reply whose responses are server-sent events: "data: {…}", then an empty line. The
// library reads it on the connection's goroutine after the handler returned, so it touches no exchange. It owns its
// request; a client that leaves, or does not read, cancels it.
type eventStream struct {
	s      *Server
	c      *conn
	r      *infer.Request
	encode encoder

	next  *infer.Response // the first response, until it is written
	any   bool            // a response was written
	ended bool            // the final response was taken
	out   builder
	rest  []byte // what is left of out's event
}

var _ io.ReadCloser = (*eventStream)(nil)

// startStream waits for the first response of r, which decides on the status, and makes the rest of the reply a stream.
// It takes the caller's reference on r.
func (s *Server) startStream(x *exchange, r *infer.Request, encode encoder) {
	if x.http10 {
		r.Cancel()
		r.Release()
		x.fail(400, typeJSON, "a stream of responses needs HTTP/1.1 or later: HTTP/1.0 has no chunks")
		return
	}
	e := &eventStream{s: s, c: x.conn, r: r, encode: encode}
	resp, err := r.Next(x.conn)
	if err != nil { // the client is gone, or the server is being closed by force
		_ = e.Close() // it cancels the request
		x.closeAfter = true
		x.failWith(typeJSON, err)
		return
	}
	e.next = resp
	x.empty(200, typeEvents)
	if resp.Err != nil {
		x.status = httpStatus(resp.Err)
	}
	x.stream = e
}

// Read gives the next bytes of the events. It waits for a response when all before have been written.
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
		e.out.drop()
	}
	return n, nil
}

// advance makes the next response an event. It returns io.EOF behind the last.
func (e *eventStream) advance() error {
	resp := e.next
	if e.next = nil; resp == nil {
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
	if isEnd(e.r, resp, e.any) {
		return nil
	}
	e.any = true
	w := &e.out
	w.start(&e.s.pool, replySize(resp))
	w.b = append(w.b, "data: "...)
	at := len(w.b)
	err := resp.Err
	if err == nil {
		err = e.encode(w, e.r, resp)
	}
	if err != nil {
		w.b = appendError(w.b[:at], err.Error())
	}
	w.room(2)
	w.b = append(w.b, '\n', '\n')
	e.rest = w.b
	return nil
}

// wait waits for a response. While it does, the connection counts as working: there is no limit of time, and the
// watcher looks whether the client is still there.
func (e *eventStream) wait() (*infer.Response, error) {
	e.c.enter(working)
	e.s.wake()
	defer e.c.enter(writing)
	resp, err := e.r.Next(e.c)
	if err == nil {
		return resp, nil
	}
	if e.s.lifetime.Err() != nil {
		return nil, status.New(status.Unavailable, "the server is shutting down")
	}
	return nil, context.Canceled
}

// Close lets go of what is left, and cancels a request that has more to say.
func (e *eventStream) Close() error {
	if e.r == nil {
		return nil
	}
	e.out.drop()
	if e.next != nil {
		e.ended = e.next.Final
		e.next.Release()
		e.next = nil
	}
	if !e.ended {
		e.r.Cancel()
	}
	e.r.Release()
	e.r = nil
	return nil
}

// encodeInference writes a response in the form that infer gives, all outputs as JSON.
func encodeInference(w *builder, r *infer.Request, resp *infer.Response) error {
	_, err := reply{}.encode(w, r, resp)
	return err
}
