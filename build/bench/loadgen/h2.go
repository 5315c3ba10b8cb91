package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"time"

	"golang.org/x/net/http2/hpack"
)

// Frames, flags and settings of HTTP/2 (RFC 9113) that a unary gRPC call needs.
const (
	h2Data         = 0x0
	h2Headers      = 0x1
	h2Reset        = 0x3
	h2Settings     = 0x4
	h2Ping         = 0x6
	h2GoAway       = 0x7
	h2WindowUpdate = 0x8
	h2Continuation = 0x9

	h2EndStream  = 0x1
	h2Ack        = 0x1
	h2EndHeaders = 0x4
	h2Padded     = 0x8
	h2Priority   = 0x20

	h2TableSize     = 0x1
	h2InitialWindow = 0x4
	h2MaxFrame      = 0x5

	h2Head          = 9
	h2FrameMost     = 1 << 20 // of the frames that the server may send
	h2HeaderMost    = 64 << 10
	h2WindowMost    = math.MaxInt32
	h2DefaultWindow = 65535
)

// h2Lane makes one unary gRPC call after another on a connection of its own, which it opens when needed. There is no
// goroutine between the socket and the worker, as there is none for HTTP/1.1: what the client costs is small beside what the
// servers do.
type h2Lane struct {
	addr     string
	message  []byte // with gRPC's prefix
	deadline time.Time

	conn     io.ReadWriteCloser
	in       *bufio.Reader
	out      bytes.Buffer
	fields   *hpack.Encoder // into out
	decoder  *hpack.Decoder
	stream   uint32
	leaving  bool  // the server takes no more streams
	maxFrame int   // that the server takes
	initial  int64 // window of a new stream
	window   int64 // of the connection, towards the server
	mine     int64 // of the stream
	received int64 // bytes of data for which the server has not got back its window
	call     h2Call
}

// h2Call is what came of the call under way.
type h2Call struct {
	body       []byte // the answer's data, with gRPC's prefix
	block      []byte // of headers that go on in the next frame
	http, grpc string // statuses
	text       string // of the error
	over       bool   // the server has ended the stream
}

// newH2Lane returns a lane that sends message, which it does not look at.
func newH2Lane(addr string, message []byte, deadline time.Time) *h2Lane {
	return &h2Lane{addr: addr, deadline: deadline,
		message: append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)}
}

// exchange sends the request and reads the whole answer. An error that is not the call's own closes the connection.
func (l *h2Lane) exchange(context.Context) (answer, error) {
	a, err := l.try()
	if err != nil || l.leaving {
		l.close()
	}
	return a, err
}

func (l *h2Lane) try() (answer, error) {
	if l.conn == nil {
		c, err := dial(l.addr, l.deadline)
		if err != nil {
			return answer{}, err
		}
		if err := l.open(c); err != nil {
			return answer{}, err
		}
	}
	if err := l.send(); err != nil {
		return answer{}, err
	}
	for !l.call.over {
		if err := l.readFrame(); err != nil {
			return answer{}, err
		}
	}
	return l.call.answer()
}

// open begins to speak HTTP/2 on c and waits for the server's settings, so that the first call knows its limits.
func (l *h2Lane) open(c io.ReadWriteCloser) error {
	l.conn, l.in = c, bufio.NewReaderSize(c, 64<<10)
	l.out.Reset()
	l.fields = hpack.NewEncoder(&l.out)
	l.decoder = hpack.NewDecoder(4096, l.call.field)
	l.decoder.SetMaxStringLength(h2HeaderMost)
	l.stream, l.leaving, l.received = 0, false, 0
	l.maxFrame, l.initial, l.window = 16<<10, h2DefaultWindow, h2DefaultWindow
	l.out.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	l.head(3*6, h2Settings, 0, 0)
	for _, s := range [][2]uint32{{0x2, 0}, {h2InitialWindow, h2WindowMost}, {h2MaxFrame, h2FrameMost}} { // 2: no pushes
		l.out.Write(binary.BigEndian.AppendUint16(nil, uint16(s[0])))
		l.word(s[1])
	}
	l.update(h2WindowMost - h2DefaultWindow)
	if err := l.flush(); err != nil {
		return err
	}
	h, p, err := l.frame()
	if err == nil && (h.kind != h2Settings || h.flags&h2Ack != 0) {
		err = fmt.Errorf("the server speaks no HTTP/2: it begins with a frame of kind %d", h.kind)
	}
	if err == nil {
		err = l.handle(h, p)
	}
	return err
}

func (l *h2Lane) head(length int, kind, flags byte, stream uint32) {
	l.out.Write([]byte{byte(length >> 16), byte(length >> 8), byte(length), kind, flags,
		byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)})
}

func (l *h2Lane) word(v uint32) { l.out.Write(binary.BigEndian.AppendUint32(nil, v)) }

// update gives the server n more bytes of the connection's window.
func (l *h2Lane) update(n int64) {
	l.head(4, h2WindowUpdate, 0, 0)
	l.word(uint32(n))
}

func (l *h2Lane) flush() error {
	_, err := l.conn.Write(l.out.Bytes())
	l.out.Reset()
	return err
}

// send sends the call: in one write, if the server's windows let it.
func (l *h2Lane) send() error {
	l.stream += 2
	if l.stream == 2 {
		l.stream = 1
	}
	l.call = h2Call{body: l.call.body[:0], block: l.call.block[:0]}
	l.mine = l.initial
	at := l.out.Len()
	l.head(0, h2Headers, h2EndHeaders, l.stream)
	for _, f := range [...][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", inferMethod}, {":authority", l.addr},
		{"content-type", "application/grpc"}, {"user-agent", "nereid-loadgen"}, {"te", "trailers"}} {
		if err := l.fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return err
		}
	}
	n := l.out.Len() - at - h2Head
	if n > l.maxFrame {
		return fmt.Errorf("the call's headers have %d bytes", n)
	}
	copy(l.out.Bytes()[at:], []byte{byte(n >> 16), byte(n >> 8), byte(n)})
	return l.data(l.message)
}

// data sends p as the windows let it, reading what the server sends meanwhile.
func (l *h2Lane) data(p []byte) error {
	for {
		room := min(l.window, l.mine)
		for room <= 0 {
			if err := l.flush(); err != nil {
				return err
			}
			if err := l.readFrame(); err != nil || l.call.over {
				return err
			}
			room = min(l.window, l.mine)
		}
		n := min(len(p), l.maxFrame, int(room))
		flags := byte(0)
		if n == len(p) {
			flags = h2EndStream
		}
		l.head(n, h2Data, flags, l.stream)
		l.out.Write(p[:n])
		l.window -= int64(n)
		l.mine -= int64(n)
		if p = p[n:]; len(p) == 0 {
			return l.flush()
		}
	}
}

type h2FrameHead struct {
	kind, flags byte
	stream      uint32
}

// frame reads one frame; the payload is good until the next read.
func (l *h2Lane) frame() (h2FrameHead, []byte, error) {
	b, err := l.in.Peek(h2Head)
	if err != nil {
		return h2FrameHead{}, nil, fmt.Errorf("no answer: %w", err)
	}
	n := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	h := h2FrameHead{b[3], b[4], binary.BigEndian.Uint32(b[5:]) & math.MaxInt32}
	if n > h2FrameMost {
		return h, nil, fmt.Errorf("the server sends a frame of %d bytes", n)
	}
	if n <= l.in.Size()-h2Head {
		if b, err = l.in.Peek(h2Head + n); err == nil {
			_, err = l.in.Discard(len(b))
			b = b[h2Head:]
		}
	} else {
		_, _ = l.in.Discard(h2Head) // it is there
		b = make([]byte, n)
		_, err = io.ReadFull(l.in, b)
	}
	if err != nil {
		return h, nil, fmt.Errorf("answer ends inside a frame: %w", err)
	}
	return h, b, nil
}

// readFrame reads a frame and does what it asks.
func (l *h2Lane) readFrame() error {
	h, p, err := l.frame()
	if err != nil {
		return err
	}
	return l.handle(h, p)
}

var errH2Frame = errors.New("the server sends a frame that is too short for its kind")

func (l *h2Lane) handle(h h2FrameHead, p []byte) error {
	if len(l.call.block) > 0 && (h.kind != h2Continuation || h.stream != l.stream) {
		return errors.New("the server sends a frame inside a header block")
	}
	switch h.kind {
	case h2Data:
		return l.taken(h, p)
	case h2Headers, h2Continuation:
		return l.headers(h, p)
	case h2Reset:
		if len(p) != 4 {
			return errH2Frame
		}
		if h.stream == l.stream {
			return fmt.Errorf("the server resets the call with error %d", binary.BigEndian.Uint32(p))
		}
	case h2Settings:
		return l.settings(h, p)
	case h2Ping:
		if len(p) != 8 {
			return errH2Frame
		}
		if h.flags&h2Ack == 0 {
			l.head(8, h2Ping, h2Ack, 0)
			l.out.Write(p)
			return l.flush()
		}
	case h2GoAway:
		if len(p) < 8 {
			return errH2Frame
		}
		if l.leaving = true; binary.BigEndian.Uint32(p)&math.MaxInt32 < l.stream {
			return fmt.Errorf("the server goes away with error %d %q", binary.BigEndian.Uint32(p[4:]), p[8:])
		}
	case h2WindowUpdate:
		if len(p) != 4 {
			return errH2Frame
		}
		switch n := int64(binary.BigEndian.Uint32(p) & math.MaxInt32); h.stream {
		case 0:
			l.window += n
		case l.stream:
			l.mine += n
		}
	}
	return nil
}

func (l *h2Lane) settings(h h2FrameHead, p []byte) error {
	if h.flags&h2Ack != 0 {
		return nil
	}
	if len(p)%6 != 0 {
		return errH2Frame
	}
	for ; len(p) > 0; p = p[6:] {
		switch v := binary.BigEndian.Uint32(p[2:]); binary.BigEndian.Uint16(p) {
		case h2TableSize:
			l.fields.SetMaxDynamicTableSizeLimit(v)
		case h2InitialWindow:
			l.mine += int64(v) - l.initial
			l.initial = int64(v)
		case h2MaxFrame:
			if v < 16<<10 || v > 1<<24-1 {
				return fmt.Errorf("the server wants frames of at most %d bytes", v)
			}
			l.maxFrame = int(v)
		}
	}
	l.head(0, h2Settings, h2Ack, 0)
	return l.flush()
}

// unpad returns a payload without its padding and, in headers, without its priority.
func (h h2FrameHead) unpad(p []byte) ([]byte, error) {
	pad := 0
	if h.flags&h2Padded != 0 {
		if len(p) == 0 {
			return nil, errH2Frame
		}
		pad, p = int(p[0]), p[1:]
	}
	if h.kind == h2Headers && h.flags&h2Priority != 0 {
		if len(p) < 5 {
			return nil, errH2Frame
		}
		p = p[5:]
	}
	if pad > len(p) {
		return nil, errH2Frame
	}
	return p[:len(p)-pad], nil
}

func (l *h2Lane) taken(h h2FrameHead, p []byte) error {
	if l.received += int64(len(p)); l.received > h2WindowMost/2 {
		l.update(l.received)
		l.received = 0
		if err := l.flush(); err != nil {
			return err
		}
	}
	p, err := h.unpad(p)
	if err != nil || h.stream != l.stream {
		return err
	}
	l.call.body = append(l.call.body, p...)
	l.call.over = h.flags&h2EndStream != 0
	return nil
}

func (l *h2Lane) headers(h h2FrameHead, p []byte) error {
	if h.stream != l.stream || h.kind == h2Continuation && len(l.call.block) == 0 {
		return errors.New("the server sends headers that belong to no call")
	}
	if h.kind == h2Headers {
		var err error
		if p, err = h.unpad(p); err != nil {
			return err
		}
		l.call.over = h.flags&h2EndStream != 0
	}
	if h.flags&h2EndHeaders == 0 || len(l.call.block) > 0 {
		if len(l.call.block)+len(p) > h2HeaderMost {
			return errors.New("the server sends too many headers")
		}
		l.call.block = append(l.call.block, p...)
		if h.flags&h2EndHeaders == 0 {
			if len(l.call.block) == 0 {
				return errors.New("the server sends an empty header block that goes on")
			}
			return nil
		}
		p = l.call.block
		defer func() { l.call.block = l.call.block[:0] }()
	}
	if _, err := l.decoder.Write(p); err != nil {
		return fmt.Errorf("the answer's headers: %w", err)
	}
	return l.decoder.Close()
}

func (c *h2Call) field(f hpack.HeaderField) {
	switch f.Name {
	case ":status":
		c.http = f.Value
	case "grpc-status":
		c.grpc = f.Value
	case "grpc-message":
		c.text = f.Value
	}
}

// answer returns what a call that is over came to.
func (c *h2Call) answer() (answer, error) {
	if c.http != "200" || c.grpc != "0" {
		text, err := url.PathUnescape(c.text)
		if err != nil {
			text = c.text
		}
		return answer{}, fmt.Errorf("HTTP status %q, gRPC status %q: %s", c.http, c.grpc, text)
	}
	if len(c.body) < 5 || c.body[0] != 0 || int64(binary.BigEndian.Uint32(c.body[1:])) != int64(len(c.body)-5) {
		return answer{}, fmt.Errorf("the answer's %d bytes are not one plain gRPC message", len(c.body))
	}
	return answer{body: c.body[5:], grpc: true}, nil
}

func (l *h2Lane) close() {
	if l.conn != nil {
		_ = l.conn.Close() // what mattered has been read
		l.conn = nil
	}
}
