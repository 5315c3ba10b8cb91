package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"runtime/debug"
	"strconv"

	"github.com/valyala/fasthttp"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/infer"
	"nereid/engine/refusals"
	"nereid/engine/requests"
	"nereid/engine/trace"
)

// Only this file knows the HTTP library. It relies on these facts of valyala/fasthttp 1.73.0:
//   - Bodies up to 8 KiB are read before the handler is called, and longer ones by it (StreamRequestBody).
//   - A body that the handler leaves unread must end the connection.
//   - The reply is written after the handler returns; then ConnState is called with StateIdle.
//   - Date and Server headers start a goroutine or cost bytes unless they are turned off.
//   - ServeConn starts no goroutine. If a read for the next request returns io.EOF, it returns its memory to pools,
//     writes nothing and closes the connection.

// newTransport makes the library's server.
func (s *Server) newTransport() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 s.handleFault,
		HeaderReceived:               s.headerReceived,
		ExpectHandler:                s.handleExpect,
		ConnState:                    s.connState,
		Concurrency:                  math.MaxInt32, // accept counts
		ReadBufferSize:               s.opt.MaxHeader,
		MaxRequestBodySize:           int(min(s.opt.MaxBody, 1<<62)),
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true,
		NoDefaultServerHeader:        s.opt.ServerName == "",
		Name:                         s.opt.ServerName,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
		Logger:                       logAdapter{s.opt.Log},
	}
}

// serveConn serves a connection's requests until it ends or is to be polled.
func (s *Server) serveConn(c *conn) error {
	x := s.exchanges.Get().(*exchange)
	x.conn, c.x, c.fresh = c, x, true
	err := s.transport.ServeConn(c)
	c.x = nil
	x.reset()
	x.conn, x.route, x.access = nil, matched{}, Access{}
	s.exchanges.Put(x)
	return err
}

// connState is called when a request begins, a reply was written or a connection ended.
func (s *Server) connState(nc net.Conn, state fasthttp.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	switch state {
	case fasthttp.StateActive:
		// The library calls it when it has bytes of a request, which it may have read together with the one before.
		// Only for the first request it calls before it has any.
		if !c.fresh {
			c.begin()
		}
		c.fresh = false
	case fasthttp.StateIdle:
		c.finished()
		c.enter(idle)
		if s.conns.closing.Load() {
			_ = c.Conn.Close() // the reply is out; a second close is harmless
		}
	case fasthttp.StateClosed:
		c.finished()
	}
}

// handle turns the library's request into an exchange, and its reply into the library's.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	c := ctx.Conn().(*conn)
	x := c.x
	c.enter(handling)
	x.reset()
	readHead(x, ctx)
	s.serve(x)
	switch {
	case x.cancelled && c.Err() != nil:
		c.record.Left()
	case x.cancelled:
		c.record.Cancel(x.status)
	case x.status >= 400:
		s.refused(x)
	default:
		c.record.Answer(x.status, "", "")
	}
	s.send(x, ctx)
	if c.trace != nil {
		c.trace.Mark(trace.HTTPSendStart, infer.Now())
	}
	c.enter(writing)
}

// readHead takes what the protocol needs from the header.
func readHead(x *exchange, ctx *fasthttp.RequestCtx) {
	h := &ctx.Request.Header
	x.method, x.headers, x.http10 = h.Method(), h, !h.IsHTTP11()
	var targetHost []byte
	targetHost, x.path = splitTarget(h.RequestURI())
	raw := h.RawHeaders()
	x.lines = raw
	if bytes.Contains(raw, newlineSpace) || bytes.Contains(raw, newlineTab) {
		x.fault = "a header must not go on in the next line"
	}
	x.length = int64(h.ContentLength())
	if x.length == -1 && bytes.Contains(bytes.ToLower(raw), []byte("\ncontent-length:")) {
		x.fault = "a request must not have both Content-Length and Transfer-Encoding"
	}
	if x.length == -1 || x.length > 0 {
		x.stream = bodyReader{Reader: ctx.RequestBodyStream(), c: x.conn, chunked: x.length == -1}
		x.body = &x.stream
	} else {
		x.length = 0
	}
	for key, value := range h.All() {
		x.take(key, value)
	}
	if targetHost != nil {
		x.host = targetHost
	}
}

// splitTarget returns the path of a request target without the query, and the authority if the target has one: it
// counts instead of the Host header.
func splitTarget(target []byte) (host, path []byte) {
	if len(target) > 0 && target[0] != '/' {
		if i := bytes.Index(target, []byte("://")); i >= 0 {
			target = target[i+3:]
			i = bytes.IndexByte(target, '/')
			if i < 0 {
				i = len(target)
			}
			host, target = target[:i:i], target[i:]
		}
	}
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		target = target[:i]
	}
	return host, target
}

// send hands the reply to the library.
func (s *Server) send(x *exchange, ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.SetStatusCode(x.status)
	if x.status == 405 {
		h.SetStatusMessage(notAllowed)
	}
	h.SetContentType(x.contentType)
	if s.routes.binaryReply && x.jsonLength >= 0 {
		h.SetContentType(s.routes.binaryType + strconv.Itoa(x.jsonLength))
	} else if x.jsonLength >= 0 {
		var digits [20]byte
		h.SetCanonical(headerLengthKey, strconv.AppendInt(digits[:0], int64(x.jsonLength), 10))
	}
	if x.timing != "" {
		h.Set("Server-Timing", x.timing)
	}
	if x.encoding != "" {
		h.Set("Content-Encoding", x.encoding)
	}
	if x.accept {
		h.Set("Accept-Encoding", "gzip, deflate")
	}
	if x.challenge {
		h.Set("WWW-Authenticate", `Bearer realm="inference"`)
	}
	if x.loadReport != "" {
		h.Set(loadReportName, x.loadReport)
	}
	if x.corsOrigin != "" {
		corsHeaders(x, h.Set)
	}
	if x.events != nil {
		ctx.Response.SetBodyStream(x.events, -1) // the library closes it
		x.events = nil
	}
	if x.reply != nil {
		if x.large.Empty() {
			ctx.Response.SetBodyRaw(x.reply.Bytes())
		} else {
			body, size := x.large.Body(x.reply.Bytes())
			x.conn.held = int64(size)
			s.pool.Budget.Add(x.conn.held)
			ctx.Response.SetBodyStream(body, size)
		}
		x.conn.reply, x.reply = x.reply, nil
	}
	// The library would take the rest of the body for the next request.
	unread := x.body != nil && !x.drained && !prefetched(x)
	if unread {
		x.conn.linger = lingerLong
		if x.denied {
			x.conn.linger = lingerDenied
		}
	}
	if unread || x.closeAfter || s.conns.closing.Load() {
		ctx.SetConnectionClose()
	}
}

// prefetched reports whether the library has read the whole body already.
func prefetched(x *exchange) bool { return x.length >= 0 && x.length <= 8<<10 }

var (
	notAllowed      = []byte("Not Allowed")
	newlineSpace    = []byte("\n ")
	newlineTab      = []byte("\n\t")
	headerLengthKey = []byte(headerLengthName)
	tooLongKey      = []byte(tooLongName)
	expectKey       = []byte("Expect")
	expectContinue  = []byte("100-continue")
)

// headerReceived prepares the header for the library, which reads the first bytes of the body next. It writes an
// expectation in the case that the library compares with: its case means nothing (RFC 9110, 10.1.1). From a request
// whose body is too large it hides the length, so that the client is answered before it sends any of the body.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) (none fasthttp.RequestConfig) {
	if e := h.PeekBytes(expectKey); len(e) > 0 && bytes.EqualFold(e, expectContinue) {
		h.SetBytesKV(expectKey, expectContinue)
	} else if int64(h.ContentLength()) > s.opt.MaxBody {
		h.SetContentLength(0)
		h.SetCanonical(tooLongKey, expectContinue)
	}
	return none
}

// handleExpect decides on "Expect: 100-continue" before the client sends its body.
func (s *Server) handleExpect(ctx *fasthttp.RequestCtx) int {
	c := ctx.Conn().(*conn)
	x := c.x
	x.reset()
	h := &ctx.Request.Header
	x.body, x.length = nil, 0 // it has not been sent
	readHead(x, ctx)
	x.route = s.routes.find(x)
	err := s.access.check(x)
	if err == nil && int64(h.ContentLength()) > s.opt.MaxBody {
		err = &Denied{Status: 413, Text: s.tooLargeText()}
	}
	if err == nil {
		return fasthttp.StatusContinue
	}
	x.deny(err)
	s.refused(x)
	s.send(x, ctx)
	return x.status
}

// refused counts the request if its reply is a refusal, and records it.
func (s *Server) refused(x *exchange) {
	r := refusals.Refusal{Protocol: "http", Cause: refusals.HTTPCause(x.status),
		Target: view(x.method) + " " + view(x.path), Client: x.conn.RemoteAddr().String()}
	if x.reply != nil {
		var body struct{ Error string }
		_ = json.Unmarshal(x.reply.Bytes(), &body) // a reply without an error text is counted too
		r.Text = body.Error
	}
	s.opt.Refusals.Add(r)
	a := x.conn.record
	if a == nil {
		if r.Cause == "" {
			return // an error of another call
		}
		a = s.record(x)
		a.For(r.Target)
		if x.route.group == Inference {
			a.About(view(x.route.model))
		}
	}
	a.Answer(x.status, r.Cause, r.Text)
}

// record begins the record of a request. It ends when the reply was written.
func (s *Server) record(x *exchange) *requests.Active {
	x.conn.record = s.opt.Requests.Begin(requests.HTTP, x.conn.RemoteAddr(), x.conn.came)
	switch {
	case x.fromVisitor:
		x.conn.record.AsVisitor()
	case x.isReplay:
		x.conn.record.AsReplay()
	case x.fromPage:
		x.conn.record.AsPage()
	}
	return x.conn.record
}

// handleFault answers a request that could not be read.
func (s *Server) handleFault(ctx *fasthttp.RequestCtx, err error) {
	code, text := transportFault(err)
	if c, ok := ctx.Conn().(*conn); ok {
		if !c.heard.Load() {
			_ = c.Conn.Close() // there was no request, so there is no reply
		} else {
			s.opt.Refusals.Add(refusals.Refusal{Protocol: "http", Cause: refusals.HTTPCause(code),
				Client: c.RemoteAddr().String(), Text: text})
			s.opt.Requests.Add(requests.HTTP, c.RemoteAddr(), "", code, refusals.HTTPCause(code), text)
		}
		c.linger = lingerFault
		c.enter(writing)
	}
	ctx.Response.ResetBody() // nothing else is set yet; Reset would turn the Date header on, which starts a goroutine
	ctx.SetStatusCode(code)
	ctx.SetContentType(typeText)
	ctx.SetBody(tensorjson.Error(text))
}

// transportFault maps an error of the library or the connection to a status and a text that repeats no bytes of the
// client.
func transportFault(err error) (code int, text string) {
	var (
		small   *fasthttp.ErrSmallBuffer
		timeout net.Error
	)
	switch {
	case errors.As(err, &small):
		return 431, "request header is too large"
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return 413, "request body is too large"
	case errors.As(err, &timeout) && timeout.Timeout():
		return 408, "request did not arrive in time"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return 400, "request ended before its announced length"
	case errors.As(err, new(fasthttp.ErrBrokenChunk)):
		return 400, "chunked body is malformed"
	}
	return 400, "malformed HTTP request"
}

// recoverPanic answers 500 for a handler that panicked. The server goes on.
func (s *Server) recoverPanic(x *exchange) {
	v := recover()
	if v == nil {
		return
	}
	s.opt.Log.Error("HTTP handler panicked", "path", tensorjson.Printable(x.path), "panic", fmt.Sprint(v),
		"stack", string(debug.Stack()))
	x.out.Drop()
	x.large.Release()
	x.closeAfter = true
	x.jsonLength, x.encoding = -1, ""
	x.fail(500, typeText, "internal error; the server's log has the details")
}

// logAdapter sends the library's messages to the log.
type logAdapter struct{ log *slog.Logger }

// Printf logs at debug level: the library's messages are about single connections.
func (l logAdapter) Printf(format string, args ...any) {
	l.log.Debug("HTTP connection failed", "err", fmt.Sprintf(format, args...))
}
