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

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"nereid/engine/client"
)

const (
	h2DefaultWindow = 65535 // RFC 9113, 6.9.2
	h2MaxFrame      = 1 << 20
	h2MaxHeaders    = 64 << 10
)

// h2Sender makes one unary gRPC call after another on its own connection, which it opens when needed. As with HTTP/1.1
// there is no goroutine between the socket and the worker, so that the client costs little beside the servers.
type h2Sender struct {
	addr     string
	message  []byte // with gRPC's prefix
	deadline time.Time

	conn     io.ReadWriteCloser
	out      *bufio.Writer
	framer   *http2.Framer // reads conn, writes out
	encoder  *hpack.Encoder
	decoder  *hpack.Decoder
	block    bytes.Buffer // of encoder
	stream   uint32
	leaving  bool   // the server takes no more streams
	maxFrame uint32 // that the server takes

	initialWindow, connWindow, streamWindow int64 // bytes that may be sent

	received int64 // bytes of data whose window has not been given back to the server
	call     h2Call
}

// h2Call is the state of the current call.
type h2Call struct {
	body               []byte // data of the response, with gRPC's prefix
	httpStatus, status string
	message            string // of the error
	endStream          bool   // the current header block is the last thing that the server sends
	ended              bool
}

// newH2Sender returns a sender of a message of any bytes.
func newH2Sender(addr string, message []byte, deadline time.Time) *h2Sender {
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return &h2Sender{addr: addr, deadline: deadline, message: append(prefix, message...)}
}

// exchange sends the request and reads the whole response. Any error closes the connection.
func (s *h2Sender) exchange(context.Context) ([]byte, error) {
	body, err := s.try()
	if err != nil || s.leaving {
		s.close()
	}
	return body, err
}

func (s *h2Sender) decode(body []byte) (*client.Response, error) { return decodeGRPC(body) }

func (s *h2Sender) close() {
	if s.conn != nil {
		_ = s.conn.Close() // everything that counts has been read
		s.conn = nil
	}
}

func (s *h2Sender) try() ([]byte, error) {
	if s.conn == nil {
		c, err := dial(s.addr, s.deadline)
		if err != nil {
			return nil, err
		}
		if err := s.open(c); err != nil {
			return nil, err
		}
	}
	if err := s.send(); err != nil {
		return nil, err
	}
	for !s.call.ended {
		if err := s.readFrame(); err != nil {
			return nil, err
		}
	}
	return s.call.result()
}

// open starts HTTP/2 on c and waits for the server's settings, so that the first call knows its limits.
func (s *h2Sender) open(c io.ReadWriteCloser) error {
	s.conn, s.out = c, bufio.NewWriterSize(c, 2*h2MaxFrame)
	s.framer = http2.NewFramer(s.out, bufio.NewReaderSize(c, 64<<10))
	s.framer.SetReuseFrames()
	s.framer.SetMaxReadFrameSize(h2MaxFrame)
	s.block.Reset()
	s.encoder, s.decoder = hpack.NewEncoder(&s.block), hpack.NewDecoder(4096, s.call.field)
	s.decoder.SetMaxStringLength(h2MaxHeaders)
	s.stream, s.leaving, s.received = 0, false, 0
	s.maxFrame, s.initialWindow, s.connWindow = 16<<10, h2DefaultWindow, h2DefaultWindow
	_, err := s.out.WriteString(http2.ClientPreface)
	err = errors.Join(err, s.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: math.MaxInt32},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: h2MaxFrame},
	), s.framer.WriteWindowUpdate(0, math.MaxInt32-h2DefaultWindow), s.out.Flush())
	if err != nil {
		return err
	}
	first, err := s.framer.ReadFrame()
	if err != nil {
		return fmt.Errorf("no response: %w", err)
	}
	settings, ok := first.(*http2.SettingsFrame)
	if !ok || settings.IsAck() {
		return fmt.Errorf("the server does not speak HTTP/2: it begins with %v", first.Header())
	}
	return s.handle(settings)
}

// send sends the call: in one write, if it fits into the server's windows and the buffer.
func (s *h2Sender) send() error {
	s.stream += 2
	if s.stream == 2 {
		s.stream = 1
	}
	s.call = h2Call{body: s.call.body[:0]}
	s.streamWindow = s.initialWindow
	s.block.Reset()
	for _, f := range [...]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: inferMethod},
		{Name: ":authority", Value: s.addr}, {Name: "content-type", Value: "application/grpc"},
		{Name: "user-agent", Value: "nereid-loadgen"}, {Name: "te", Value: "trailers"},
	} {
		_ = s.encoder.WriteField(f) // a bytes.Buffer does not fail
	}
	head := http2.HeadersFrameParam{StreamID: s.stream, BlockFragment: s.block.Bytes(), EndHeaders: true}
	if err := s.framer.WriteHeaders(head); err != nil {
		return err
	}
	for p := s.message; ; {
		for min(s.connWindow, s.streamWindow) <= 0 {
			if err := s.out.Flush(); err != nil {
				return err
			}
			if err := s.readFrame(); err != nil || s.call.ended {
				return err
			}
		}
		n := min(int64(len(p)), int64(s.maxFrame), s.connWindow, s.streamWindow)
		if err := s.framer.WriteData(s.stream, int(n) == len(p), p[:n]); err != nil {
			return err
		}
		s.connWindow -= n
		s.streamWindow -= n
		if p = p[n:]; len(p) == 0 {
			return s.out.Flush()
		}
	}
}

// readFrame reads a frame and handles it.
func (s *h2Sender) readFrame() error {
	f, err := s.framer.ReadFrame()
	if err != nil {
		return fmt.Errorf("no whole response: %w", err)
	}
	return s.handle(f)
}

func (s *h2Sender) handle(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return s.data(f)
	case *http2.HeadersFrame:
		s.call.endStream = f.StreamEnded()
		return s.headers(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return s.headers(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.RSTStreamFrame:
		if f.StreamID == s.stream {
			return fmt.Errorf("the server resets the call: %v", f.ErrCode)
		}
	case *http2.SettingsFrame:
		return s.settings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			return errors.Join(s.framer.WritePing(true, f.Data), s.out.Flush())
		}
	case *http2.GoAwayFrame:
		if s.leaving = true; f.LastStreamID < s.stream {
			return fmt.Errorf("the server closes the connection: %v %q", f.ErrCode, f.DebugData())
		}
	case *http2.WindowUpdateFrame:
		switch f.StreamID {
		case 0:
			s.connWindow += int64(f.Increment)
		case s.stream:
			s.streamWindow += int64(f.Increment)
		}
	}
	return nil
}

func (s *h2Sender) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	err := f.ForeachSetting(func(v http2.Setting) error {
		switch v.ID {
		case http2.SettingHeaderTableSize:
			s.encoder.SetMaxDynamicTableSizeLimit(v.Val)
		case http2.SettingInitialWindowSize:
			s.streamWindow += int64(v.Val) - s.initialWindow
			s.initialWindow = int64(v.Val)
		case http2.SettingMaxFrameSize:
			s.maxFrame = v.Val
		}
		return v.Valid()
	})
	return errors.Join(err, s.framer.WriteSettingsAck(), s.out.Flush())
}

func (s *h2Sender) data(f *http2.DataFrame) error {
	if s.received += int64(f.Length); s.received > math.MaxInt32/2 {
		if err := errors.Join(s.framer.WriteWindowUpdate(0, uint32(s.received)), s.out.Flush()); err != nil {
			return err
		}
		s.received = 0
	}
	if f.StreamID == s.stream {
		s.call.body = append(s.call.body, f.Data()...)
		s.call.ended = f.StreamEnded()
	}
	return nil
}

// headers decodes a part of a header block. last: it is the end of the block.
func (s *h2Sender) headers(stream uint32, part []byte, last bool) error {
	if stream != s.stream {
		return errors.New("the server sends headers of an unknown stream")
	}
	if _, err := s.decoder.Write(part); err != nil {
		return fmt.Errorf("the response's headers: %w", err)
	}
	if !last {
		return nil
	}
	s.call.ended = s.call.endStream
	return s.decoder.Close()
}

func (c *h2Call) field(f hpack.HeaderField) {
	switch f.Name {
	case ":status":
		c.httpStatus = f.Value
	case "grpc-status":
		c.status = f.Value
	case "grpc-message":
		c.message = f.Value
	}
}

// result returns the response's message, or the error, of a call that has ended.
func (c *h2Call) result() ([]byte, error) {
	if c.httpStatus != "200" || c.status != "0" {
		text, err := url.PathUnescape(c.message)
		if err != nil {
			text = c.message
		}
		return nil, fmt.Errorf("HTTP status %q, gRPC status %q: %s", c.httpStatus, c.status, text)
	}
	b := c.body
	if len(b) < 5 || b[0] != 0 || int64(binary.BigEndian.Uint32(b[1:])) != int64(len(b)-5) {
		return nil, fmt.Errorf("the response's %d bytes are not one plain gRPC message", len(b))
	}
	return b[5:], nil
}
