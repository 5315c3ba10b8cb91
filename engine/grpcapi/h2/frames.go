package h2

import (
	"encoding/binary"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// blockState is a header block of which not all has come.
type blockState struct {
	open      bool
	id        uint32
	endStream bool
	frames    int
	b         []byte
}

// maxContinuations bounds the frames of one header block: a client that needs them fills them.
const maxContinuations = 16

func (c *conn) headersFrame(h frameHead, p []byte) error {
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
		if binary.BigEndian.Uint32(p)&(1<<31-1) == h.id {
			return protocolError("a stream depends on itself")
		}
		p = p[5:]
	}
	if h.flags&flagEndHeaders != 0 {
		return c.openStream(h.id, h.flags&flagEndStream != 0, p)
	}
	c.block = blockState{open: true, id: h.id, endStream: h.flags&flagEndStream != 0, b: append([]byte(nil), p...)}
	return c.blockSize()
}

func (c *conn) blockSize() error {
	if len(c.block.b) > 2*int(c.srv.o.MaxHeaderBytes) || c.block.frames > maxContinuations {
		return &connError{codeEnhanceYourCal, "a header block without end"}
	}
	return nil
}

func (c *conn) continuation(h frameHead, p []byte) error {
	if !c.block.open {
		return protocolError("CONTINUATION without HEADERS")
	}
	c.block.b = append(c.block.b, p...)
	c.block.frames++
	if err := c.blockSize(); err != nil {
		return err
	}
	if h.flags&flagEndHeaders == 0 {
		return nil
	}
	c.block.open = false
	return c.openStream(h.id, c.block.endStream, c.block.b)
}

// openStream takes a complete header block.
func (c *conn) openStream(id uint32, endStream bool, block []byte) error {
	req, err := c.headers.read(block) // in any case: the tables must stay the same
	if err != nil {
		return err
	}
	c.mu.Lock()
	if id <= c.lastID {
		return c.trailers(id, endStream, req) // lets go of c.mu
	}
	c.lastID = id
	if c.dead || c.draining == drainLast {
		c.mu.Unlock()
		return nil // the client knows that it is not served
	}
	s := streams.Get().(*Stream)
	*s = Stream{c: c, id: id, req: req, window: c.peerWindow, recvWindow: streamWindow, remoteEnd: endStream, present: true, queue: s.queue[:0]}
	c.streams[id] = s
	switch {
	case req.malformed != "":
		c.reset(s, codeProtocol, statusMalformed)
		err = c.calm.resets(c.srv)
	case len(c.streams) > int(c.srv.o.MaxConcurrentStreams):
		c.reset(s, codeRefused, statusMalformed)
		err = c.calm.resets(c.srv)
	case endStream && req.length > 0:
		c.reset(s, codeProtocol, statusMalformed)
	case req.refusal != nil:
		if endStream || req.http == 0 {
			c.finish(s, req.refusal.Err())
		} // else with the end of its body
	default:
		c.mu.Unlock()
		return c.startCall(s, endStream)
	}
	c.mu.Unlock()
	return err
}

var statusMalformed = grpcstatus.Error(codes.Internal, "the request is malformed")

// trailers takes HEADERS of a stream that was open before: a client's trailers mean nothing to gRPC but its end. c.mu is
// held, and let go.
func (c *conn) trailers(id uint32, endStream bool, req *request) error {
	s := c.streams[id]
	switch {
	case s == nil:
		c.mu.Unlock()
		return &connError{codeStreamClosed, "HEADERS on a closed stream"}
	case s.remoteEnd:
		c.reset(s, codeStreamClosed, statusMalformed)
	case !endStream || req.pseudo || req.faulty:
		c.reset(s, codeProtocol, statusMalformed)
	default:
		c.mu.Unlock()
		c.ended(s)
		return nil
	}
	c.mu.Unlock()
	return nil
}

// startCall runs what a call's headers begin.
func (c *conn) startCall(s *Stream, endStream bool) error {
	m := s.req.method
	if m.inline == nil {
		c.startHandler(s)
		return nil
	}
	if err := c.srv.accept(s); err != nil {
		c.mu.Lock()
		c.finish(s, err)
		c.mu.Unlock()
		return nil
	}
	if d := s.req.timeout; d > 0 {
		c.mu.Lock()
		s.timer = time.AfterFunc(d, func() { c.expire(s) })
		c.mu.Unlock()
	}
	if endStream {
		c.ended(s)
	}
	return nil
}

// expire ends an inline call at its deadline.
func (c *conn) expire(s *Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.done || !s.present {
		return
	}
	s.err = statusDeadline
	if s.began {
		c.resume(s)
		return
	}
	c.finish(s, s.err)
	c.wake()
}

var statusDeadline = grpcstatus.Error(codes.DeadlineExceeded, "context deadline exceeded")

func (c *conn) data(h frameHead) error {
	if h.id == 0 {
		return protocolError("DATA on stream 0")
	}
	n, pad := h.length, 0
	if h.flags&flagPadded != 0 {
		if n == 0 {
			return &connError{codeFrameSize, "a padded frame without a pad length"}
		}
		if c.w == c.r {
			if err := c.fill(1); err != nil {
				return err
			}
		}
		pad = int(c.in[c.r])
		c.r++
		n--
		if pad > n {
			return protocolError("padding as long as the frame")
		}
		n -= pad
	}
	endStream := h.flags&flagEndStream != 0
	s, err := c.receiveWindow(h, endStream, n)
	if err != nil {
		return err
	}
	if err := c.body(s, n); err != nil {
		return err
	}
	if err := c.skip(pad); err != nil {
		return err
	}
	if s == nil {
		return nil
	}
	s.uncredited += h.length - n // the padding; body has counted the rest
	s.received += int64(n)
	if endStream {
		c.ended(s)
	} else {
		c.creditPartial(s)
	}
	return nil
}

// receiveWindow finds a DATA frame's stream, nil if there is none that wants it, and takes the frame from the windows.
func (c *conn) receiveWindow(h frameHead, endStream bool, n int) (*Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.id > c.lastID || h.id%2 == 0 {
		return nil, protocolError("DATA on an idle stream")
	}
	if h.length > c.recvWindow {
		return nil, &connError{codeFlowControl, "more DATA than the connection's window allows"}
	}
	c.recvWindow -= h.length
	c.uncredited += h.length
	c.creditConn()
	if n == 0 && !endStream {
		if err := c.calm.control(c.srv); err != nil {
			return nil, err
		}
	}
	s := c.streams[h.id]
	switch {
	case s == nil:
		c.out.b = appendWords(c.out.b, frameReset, h.id, uint32(codeStreamClosed))
		return nil, c.calm.late(c.srv)
	case s.remoteEnd:
		c.reset(s, codeStreamClosed, statusMalformed)
		return nil, nil
	case h.length > s.recvWindow:
		c.reset(s, codeFlowControl, statusMalformed)
		return nil, nil
	}
	s.recvWindow -= h.length
	return s, nil
}

// body takes n bytes of a call's messages; s nil: nobody wants them.
func (c *conn) body(s *Stream, n int) error {
	pool := c.srv.o.Pool
	for n > 0 {
		if c.r == c.w {
			if s != nil {
				if room := s.in.room(pool); len(room) >= copyBelow && n >= copyBelow { // past our own buffer
					if err := c.beforeRead(); err != nil {
						return err
					}
					k, err := c.nc.Read(room[:min(n, len(room))])
					s.in.filled += k
					s.uncredited += k
					n -= k
					if err != nil {
						return err
					}
					c.lastRead.Store(c.srv.now())
					if s.in.filled == s.in.size {
						c.message(s)
					}
					continue
				}
			}
			if err := c.fill(1); err != nil {
				return err
			}
		}
		p := c.in[c.r:min(c.w, c.r+n)]
		c.r += len(p)
		n -= len(p)
		if s == nil || s.req.refusal != nil {
			continue
		}
		for len(p) > 0 {
			rest, done, err := s.in.feed(p, c.srv.o.MaxReceiveBytes, pool, c.mayReserve)
			s.uncredited += len(p) - len(rest)
			if err != nil {
				c.tooLarge(s)
				s = nil
				break
			}
			if p = rest; done {
				c.message(s)
			}
		}
	}
	return nil
}

// skip passes n bytes over.
func (c *conn) skip(n int) error {
	if c.w-c.r < n {
		if err := c.fill(n); err != nil {
			return err
		}
	}
	c.r += n
	return nil
}

// creditPartial gives back to the stream's window what belongs to a message that is not whole: nobody can take it, and
// without it the rest could not come.
func (c *conn) creditPartial(s *Stream) {
	if s.uncredited < streamWindow/4 {
		return
	}
	c.mu.Lock()
	s.uncreditedHeld += s.uncredited
	s.uncredited = 0
	s.give(0)
	c.mu.Unlock()
}

func (c *conn) resetFrame(h frameHead, p []byte) error {
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
	return c.calm.resets(c.srv)
}

var statusCancelled = grpcstatus.Error(codes.Canceled, "context canceled")

func (c *conn) settingsFrame(h frameHead, p []byte) error {
	switch {
	case h.id != 0:
		return protocolError("SETTINGS on a stream")
	case h.flags&flagAck != 0 && len(p) > 0, len(p)%6 != 0:
		return &connError{codeFrameSize, "SETTINGS of a wrong length"}
	case h.flags&flagAck != 0:
		if !c.settings {
			return protocolError("the first frame is an acknowledgement")
		}
		return c.calm.control(c.srv)
	}
	if !c.settings {
		c.settings = true
		c.mu.Lock()
		c.greeted = true
		c.mu.Unlock()
		_ = c.nc.SetDeadline(time.Time{}) // the connection stands
	} else if err := c.calm.settings(c.srv); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.b = appendHead(c.out.b, 0, frameSettings, flagAck, 0) // before what a wider window lets go
	for ; len(p) > 0; p = p[6:] {
		if err := c.setting(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
	}
	return nil
}

// setting takes one of the client's settings. c.mu is held.
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
		delta := int64(v) - c.peerWindow
		c.peerWindow = int64(v)
		for _, s := range c.streams {
			if s.window += delta; s.window > maxWindow {
				return &connError{codeFlowControl, "a stream's window above 2^31-1"}
			}
			if delta > 0 && s.queued > 0 && !s.blocked {
				c.push(s)
			}
		}
	case settingMaxFrame:
		if v < maxFrame || v > maxFrameLimit {
			return protocolError("SETTINGS_MAX_FRAME_SIZE out of its range")
		}
		c.peerFrame = int(min(v, 256<<10))
	}
	return nil
}

func (c *conn) windowUpdate(h frameHead, p []byte) error {
	if len(p) != 4 {
		return &connError{codeFrameSize, "WINDOW_UPDATE not of 4 bytes"}
	}
	n := int64(binary.BigEndian.Uint32(p) & (1<<31 - 1))
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.id == 0 {
		if n == 0 {
			return protocolError("WINDOW_UPDATE by 0")
		}
		if c.window += n; c.window > maxWindow {
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
		return c.calm.resets(c.srv)
	}
	if s.window += n; s.window > maxWindow {
		c.reset(s, codeFlowControl, statusMalformed)
		return c.calm.resets(c.srv)
	}
	if s.queued > 0 && !s.blocked {
		c.push(s)
	}
	return nil
}

func (c *conn) ping(h frameHead, p []byte) error {
	switch {
	case h.id != 0:
		return protocolError("PING on a stream")
	case len(p) != 8:
		return &connError{codeFrameSize, "PING not of 8 bytes"}
	case h.flags&flagAck != 0:
		if string(p) == drainPing {
			c.drainLast()
		}
		return c.calm.control(c.srv)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.b = append(appendHead(c.out.b, 8, framePing, flagAck, 0), p...)
	free := c.pingsFree
	c.pingsFree = false
	return c.calm.ping(c.srv, free, len(c.streams) > 0)
}

func (c *conn) goAwayFrame(h frameHead, p []byte) error {
	if h.id != 0 {
		return protocolError("GOAWAY on a stream")
	}
	if len(p) < 8 {
		return &connError{codeFrameSize, "GOAWAY shorter than 8 bytes"}
	}
	return c.calm.control(c.srv) // the client closes when it has its answers
}

func (c *conn) priority(h frameHead, p []byte) error {
	switch {
	case h.id == 0:
		return protocolError("PRIORITY on stream 0")
	case len(p) != 5:
		return &connError{codeFrameSize, "PRIORITY not of 5 bytes"}
	case binary.BigEndian.Uint32(p)&(1<<31-1) == h.id:
		return protocolError("a stream depends on itself")
	}
	return c.calm.control(c.srv)
}
