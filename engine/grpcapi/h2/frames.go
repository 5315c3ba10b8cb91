package h2

import (
	"encoding/binary"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// headerBlock is a header block that has not come whole.
type headerBlock struct {
	open      bool
	id        uint32
	endStream bool
	frames    int
	b         []byte
}

// maxContinuations bounds the frames of one header block.
const maxContinuations = 16

var (
	statusMalformed = grpcstatus.Error(codes.Internal, "the request is malformed")
	statusCancelled = grpcstatus.Error(codes.Canceled, "context canceled")
	statusDeadline  = grpcstatus.Error(codes.DeadlineExceeded, "context deadline exceeded")
)

func (r *reader) headersFrame(h frameHead, p []byte) error {
	if h.id%2 == 0 {
		return protocolError("HEADERS on a stream that no client opens")
	}
	p, err := unpad(h, p)
	if err != nil {
		return err
	}
	if h.flags&flagPriority != 0 {
		if len(p) < 5 {
			return &connError{codeFrameSize, "HEADERS too short for its priority"}
		}
		if number31(p) == h.id {
			return protocolError("a stream depends on itself")
		}
		p = p[5:]
	}
	endStream := h.flags&flagEndStream != 0
	if h.flags&flagEndHeaders != 0 {
		return r.openStream(h.id, endStream, p)
	}
	r.block = headerBlock{open: true, id: h.id, endStream: endStream, b: slices.Clone(p)}
	return r.checkBlock()
}

func (r *reader) checkBlock() error {
	if len(r.block.b) > 2*int(r.c.srv.o.MaxHeaderBytes) || r.block.frames > maxContinuations {
		return &connError{codeEnhanceYourCalm, "a header block without end"}
	}
	return nil
}

func (r *reader) continuation(h frameHead, p []byte) error {
	if !r.block.open {
		return protocolError("CONTINUATION without HEADERS")
	}
	r.block.b = append(r.block.b, p...)
	r.block.frames++
	if err := r.checkBlock(); err != nil {
		return err
	}
	if h.flags&flagEndHeaders == 0 {
		return nil
	}
	r.block.open = false
	return r.openStream(h.id, r.block.endStream, r.block.b)
}

// openStream handles a complete header block.
func (r *reader) openStream(id uint32, endStream bool, block []byte) error {
	req, err := r.headers.read(block) // always: the tables of both sides must stay the same
	if err != nil {
		return err
	}
	c := r.c
	c.mu.Lock()
	if id <= c.lastID {
		ended, err := c.trailers(id, endStream, req)
		c.mu.Unlock()
		if ended != nil {
			r.ended(ended)
		}
		return err
	}
	c.lastID = id
	if c.closed || c.life.stage == drainRefusing {
		c.mu.Unlock()
		return nil // the client knows from the GOAWAY that the call is not served
	}
	s := streams.Get().(*Stream)
	*s = Stream{
		c: c, id: id, req: req, open: true, remoteClosed: endStream, recvWindow: streamWindow,
		send: sendState{window: c.peer.streamWindow, queue: s.send.queue[:0]},
	}
	c.streams[id] = s
	switch {
	case req.malformed != "":
		c.reset(s, codeProtocol, statusMalformed)
		err = r.limits.reset(c.srv.o.MaxConcurrentStreams)
	case len(c.streams) > int(c.srv.o.MaxConcurrentStreams):
		c.reset(s, codeRefused, statusMalformed)
		err = r.limits.reset(c.srv.o.MaxConcurrentStreams)
	case endStream && req.length > 0:
		c.reset(s, codeProtocol, statusMalformed)
	case req.refusal != nil:
		if endStream || req.http == 0 {
			c.finish(s, req.refusal.Err())
		} // else at the end of its body
	default:
		c.mu.Unlock()
		r.startCall(s, endStream)
		return nil
	}
	c.mu.Unlock()
	return err
}

// trailers handles HEADERS of a stream that was opened before. Of a client's trailers only the end of the call has a
// meaning in gRPC: the stream that has ended is returned. c.mu is held.
func (c *conn) trailers(id uint32, endStream bool, req *request) (ended *Stream, err error) {
	s := c.streams[id]
	switch {
	case s == nil:
		return nil, &connError{codeStreamClosed, "HEADERS on a closed stream"}
	case s.remoteClosed:
		c.reset(s, codeStreamClosed, statusMalformed)
	case !endStream || req.pseudo || req.faulty:
		c.reset(s, codeProtocol, statusMalformed)
	default:
		return s, nil
	}
	return nil, nil
}

// startCall starts a call whose headers have come.
func (r *reader) startCall(s *Stream, endStream bool) {
	c, m := r.c, s.req.method
	if m.inline == nil {
		c.startHandler(s)
		return
	}
	if err := m.inline.Accept(s.req.ctx); err != nil {
		c.mu.Lock()
		c.finish(s, err)
		c.mu.Unlock()
		return
	}
	if d := s.req.timeout; d > 0 {
		c.mu.Lock()
		s.inline.timer = time.AfterFunc(d, func() { c.expire(s) })
		c.mu.Unlock()
	}
	if endStream {
		r.ended(s)
	}
}

func (r *reader) resetFrame(h frameHead, p []byte) error {
	c := r.c
	switch {
	case len(p) != 4:
		return &connError{codeFrameSize, "RST_STREAM not of 4 bytes"}
	case h.id == 0 || h.id > c.lastID || h.id%2 == 0:
		return protocolError("RST_STREAM on an idle stream")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[h.id]
	if s == nil {
		return nil
	}
	c.abort(s, statusCancelled)
	return r.limits.reset(c.srv.o.MaxConcurrentStreams)
}

func (r *reader) settingsFrame(h frameHead, p []byte) error {
	c := r.c
	switch {
	case h.id != 0:
		return protocolError("SETTINGS on a stream")
	case h.flags&flagAck != 0 && len(p) > 0, len(p)%6 != 0:
		return &connError{codeFrameSize, "SETTINGS of a wrong length"}
	case len(p) > 6*maxSettings:
		return &connError{codeEnhanceYourCalm, "SETTINGS with too many entries"}
	case h.flags&flagAck != 0:
		if !r.settled {
			return protocolError("the first frame is an acknowledgement")
		}
		return r.limits.emptyFrame()
	case r.settled:
		if err := r.limits.settingsFrame(); err != nil {
			return err
		}
	default:
		r.settled = true
		_ = c.nc.SetDeadline(time.Time{}) // the connection is established
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life.settled = true
	c.out.b = appendHead(c.out.b, 0, frameSettings, flagAck, 0) // before the DATA that a larger window allows
	window := c.peer.streamWindow
	for ; len(p) > 0; p = p[6:] {
		if err := c.setting(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
	}
	return c.moveWindows(c.peer.streamWindow - window)
}

// maxSettings bounds the entries of one frame. There are seven settings.
const maxSettings = 64

// moveWindows adds delta to the windows of all streams. It runs once for each frame, however often that sets the
// window: its cost grows with the number of streams. c.mu is held.
func (c *conn) moveWindows(delta int64) error {
	if delta == 0 {
		return nil
	}
	for _, s := range c.streams {
		if s.send.window += delta; s.send.window > maxWindow {
			return &connError{codeFlowControl, "a stream's window above 2^31-1"}
		}
		if delta > 0 && s.send.queued > 0 && !s.send.blocked {
			c.push(s)
		}
	}
	return nil
}

// setting takes one of the client's settings. The caller moves the windows of the streams. c.mu is held.
func (c *conn) setting(id uint16, v uint32) error {
	switch id {
	case settingTableSize:
		c.enc.limit(v)
	case settingPush:
		if v > 1 {
			return protocolError("SETTINGS_ENABLE_PUSH is neither 0 nor 1")
		}
	case settingInitialWindow:
		if v > maxWindow {
			return &connError{codeFlowControl, "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1"}
		}
		c.peer.streamWindow = int64(v)
	case settingMaxFrame:
		if v < maxFrame || v > maxFrameLimit {
			return protocolError("SETTINGS_MAX_FRAME_SIZE out of its range")
		}
		c.peer.frame = int(min(v, 256<<10))
	}
	return nil
}

func (r *reader) windowUpdate(h frameHead, p []byte) error {
	if len(p) != 4 {
		return &connError{codeFrameSize, "WINDOW_UPDATE not of 4 bytes"}
	}
	c, n := r.c, int64(number31(p))
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.id == 0 {
		if n == 0 {
			return protocolError("WINDOW_UPDATE by 0")
		}
		if c.peer.window += n; c.peer.window > maxWindow {
			return &connError{codeFlowControl, "the connection's window above 2^31-1"}
		}
		c.unblock()
		return nil
	}
	if h.id > c.lastID || h.id%2 == 0 {
		return protocolError("WINDOW_UPDATE on an idle stream")
	}
	s := c.streams[h.id]
	if s == nil {
		return nil
	}
	if n == 0 {
		c.reset(s, codeProtocol, statusMalformed)
		return r.limits.reset(c.srv.o.MaxConcurrentStreams)
	}
	if s.send.window += n; s.send.window > maxWindow {
		c.reset(s, codeFlowControl, statusMalformed)
		return r.limits.reset(c.srv.o.MaxConcurrentStreams)
	}
	if s.send.queued > 0 && !s.send.blocked {
		c.push(s)
	}
	return nil
}

func (r *reader) ping(h frameHead, p []byte) error {
	c := r.c
	switch {
	case h.id != 0:
		return protocolError("PING on a stream")
	case len(p) != 8:
		return &connError{codeFrameSize, "PING not of 8 bytes"}
	case h.flags&flagAck != 0:
		if string(p) == drainPing {
			c.life.refuseCalls()
		}
		return r.limits.emptyFrame()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.ping(string(p), flagAck)
	allowed := c.life.pingOK
	c.life.pingOK = false
	return r.limits.ping(&c.srv.o, allowed, len(c.streams) > 0)
}

func (r *reader) goAway(h frameHead, p []byte) error {
	if h.id != 0 {
		return protocolError("GOAWAY on a stream")
	}
	if len(p) < 8 {
		return &connError{codeFrameSize, "GOAWAY shorter than 8 bytes"}
	}
	return r.limits.emptyFrame() // the client closes when it has its answers
}

func (r *reader) priority(h frameHead, p []byte) error {
	switch {
	case h.id == 0:
		return protocolError("PRIORITY on stream 0")
	case len(p) != 5:
		return &connError{codeFrameSize, "PRIORITY not of 5 bytes"}
	case number31(p) == h.id:
		return protocolError("a stream depends on itself")
	}
	return r.limits.emptyFrame()
}
