package httpapi

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// firstRead is how much memory a body gets before any of it has arrived; it grows as the body does, which costs a copy:
// a tensor of 1 MiB and the JSON text before it go without.
const firstRead = 2 << 20

// errTooLarge says that a body is over the limit: 413.
var errTooLarge = errors.New("request body is too large")

// bodyError is a failure while the body was read: the client's fault or its connection's.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

// readBody reads the whole body into pooled memory, offset bytes behind the buffer's start. It returns the buffer, which
// the caller releases, and the body. Errors: errTooLarge, a coded error, or the connection's.
func (s *Server) readBody(x *exchange, offset int) (*tensor.Buffer, []byte, error) {
	limit := s.opt.MaxBody
	if x.length > limit {
		return nil, nil, errTooLarge
	}
	var r io.Reader = x.body
	length := x.length
	compressed := len(x.contentEncoding) > 0 && string(x.contentEncoding) != "identity"
	if x.body == nil || length == 0 {
		x.drained = true
		buf := s.pool.Get(offset)
		return buf, buf.Bytes()[offset:], nil
	}
	x.conn.enter(reading)
	defer x.conn.enter(working)
	if compressed {
		z, err := decompressor(x)
		if err != nil {
			return nil, nil, err
		}
		defer z.Close()
		r, length = z, -1
	}
	buf, body, err := s.fill(r, offset, length, limit)
	switch {
	case err == nil:
		x.drained = !compressed || rest(x.body)
		return buf, body, nil
	case errors.Is(err, errTooLarge):
		return nil, nil, err
	case compressed:
		return nil, nil, status.Errorf(status.InvalidArg, "failed to decompress the %s body: %w", x.contentEncoding, err)
	}
	return nil, nil, bodyError{err}
}

// rest reads what is behind the end of a compressed stream and reports whether the body ended soon enough for the
// connection to be used again.
func rest(body io.Reader) bool {
	const most = 64 << 10
	n, err := io.Copy(io.Discard, io.LimitReader(body, most))
	return err == nil && n < most
}

// fill reads r to its end; length is what it will give, -1 if that is not known.
func (s *Server) fill(r io.Reader, offset int, length, limit int64) (*tensor.Buffer, []byte, error) {
	room := min(firstRead, limit+1)
	if length >= 0 {
		room = min(length, firstRead)
	}
	buf := s.pool.Get(offset + int(room))
	at := int64(0)
	for {
		b := buf.Bytes()[offset:]
		n, err := r.Read(b[at:])
		at += int64(n)
		if at == length || err == io.EOF {
			if length >= 0 && at < length {
				buf.Release()
				return nil, nil, io.ErrUnexpectedEOF
			}
			return buf, b[:at:at], nil
		}
		if err != nil {
			buf.Release()
			return nil, nil, err
		}
		if at < int64(len(b)) {
			continue
		}
		if at > limit {
			buf.Release()
			return nil, nil, errTooLarge
		}
		room = at * 16 // known to come: sixteen times what has come
		if length < 0 {
			room = min(at*2, limit+1)
		} else {
			room = min(room, length)
		}
		next := s.pool.Get(offset + int(room))
		copy(next.Bytes()[offset:], b)
		buf.Release()
		buf = next
	}
}

// decompressor returns a reader of the plain body. Either encoding's name goes with either format, as in Triton.
func decompressor(x *exchange) (io.ReadCloser, error) {
	if e := string(x.contentEncoding); e != "gzip" && e != "deflate" {
		x.accept = true
		return nil, status.New(status.Unsupported, "Unsupported compression type")
	}
	head := make([]byte, 2)
	n, err := io.ReadFull(x.body, head)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "failed to decompress the %s body: %w", x.contentEncoding, err)
	}
	r := io.MultiReader(newHead(head[:n]), x.body)
	var z io.ReadCloser
	if head[0] == 0x1f && head[1] == 0x8b {
		var g *gzip.Reader
		if g, err = gzip.NewReader(r); err == nil {
			z = g
		}
	} else {
		z, err = zlib.NewReader(r)
	}
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "failed to decompress the %s body: %w", x.contentEncoding, err)
	}
	return z, nil
}

// head is a reader of a few bytes.
type head struct{ b []byte }

func newHead(b []byte) *head { return &head{b} }

// Read gives the bytes.
func (h *head) Read(p []byte) (int, error) {
	if len(h.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, h.b)
	h.b = h.b[n:]
	return n, nil
}

// replyBodyError answers a body that could not be read.
func (s *Server) replyBodyError(x *exchange, err error) {
	x.closeAfter = true
	switch {
	case errors.Is(err, errTooLarge):
		x.fail(413, typeJSON, s.tooLargeText())
	case errors.As(err, new(bodyError)):
		code, text := transportFault(err)
		x.fail(code, typeJSON, text)
	case x.accept:
		x.failWith(typeText, err)
	default:
		x.failWith(typeJSON, err)
	}
}

func (s *Server) tooLargeText() string {
	return fmt.Sprintf("request body is over the limit of %d bytes; raise it with --http-max-input-size", s.opt.MaxBody)
}
