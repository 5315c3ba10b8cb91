package httpapi

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// firstRead is how much memory a body of known length gets before it has arrived, and firstUnknown one of unknown
// length. A longer one grows as it arrives, which costs a copy. A tensor of 1 MiB with its JSON part fits in firstRead.
const (
	firstRead    = 2 << 20
	firstUnknown = 64 << 10
)

// smallBody is the size up to which an unwanted body is read so that the connection can be used again.
const smallBody = 64 << 10

// errTooLarge says that a body is over the limit.
var errTooLarge = errors.New("request body is too large")

// readBody reads the whole body into pooled memory, offset bytes behind the buffer's start. It returns the buffer,
// which the caller must release, and the body. After an error, which has its own status and content type, the
// connection will be closed.
func (s *Server) readBody(x *exchange, offset int) (*tensor.Buffer, []byte, error) {
	if x.body == nil || x.length == 0 {
		x.drained = true
		buf := s.pool.Get(offset)
		return buf, buf.Bytes()[offset:], nil
	}
	x.conn.expect(x.length)
	defer x.conn.enter(handling)
	buf, body, err := s.readEncoded(x, offset)
	if err != nil {
		x.closeAfter = x.closeAfter || !x.drained
		return nil, nil, err
	}
	return buf, body, nil
}

// readEncoded reads a body and decompresses it if it is compressed.
func (s *Server) readEncoded(x *exchange, offset int) (buf *tensor.Buffer, body []byte, err error) {
	compressed := len(x.contentEncoding) > 0 && string(x.contentEncoding) != "identity"
	noRoom := s.opt.Memory.Check(x.length)
	switch {
	case x.length > s.opt.MaxBody:
		err = errTooLarge
	case noRoom != nil:
		err = noRoom
	case compressed:
		var z io.ReadCloser
		if z, err = decompressor(x); err != nil {
			return nil, nil, err
		}
		defer z.Close()
		if buf, body, err = s.fill(&ratioReader{plain: z, packed: &x.stream}, offset, -1); err == nil {
			x.drained = discard(x.body, smallBody) // what is behind the end of the compressed stream
		}
	default:
		buf, body, err = s.fill(x.body, offset, x.length)
		x.drained = err == nil
	}
	switch {
	case err == nil:
	case errors.Is(err, errTooLarge):
		err = typedError{errors.New(s.tooLargeText()), typeJSON, 413}
	case errors.Is(err, tensor.ErrNoRoom):
		// A client that is still sending when the connection is closed may not see the answer.
		x.drained = discard(x.body, s.opt.MaxBody)
		err = asJSON(err)
	case errors.Is(err, tensor.ErrRatio):
		err = typedError{err, typeJSON, 413}
	case compressed:
		err = errDecompress(x, err)
	default:
		code, text := transportFault(err)
		err = typedError{errors.New(text), typeJSON, code}
	}
	return buf, body, err
}

func (s *Server) tooLargeText() string {
	return fmt.Sprintf("request body is over the limit of %d bytes; raise it with --http-max-input-size", s.opt.MaxBody)
}

func errDecompress(x *exchange, err error) error {
	return asJSON(status.Errorf(status.InvalidArg, "failed to decompress the %s body: %w", x.contentEncoding, err))
}

// ratioReader reads the plain bytes of a compressed body, and ends with tensor.ErrRatio if these are too many for it.
type ratioReader struct {
	plain  io.Reader
	packed *bodyReader
	n      int64
}

func (r *ratioReader) Read(p []byte) (int, error) {
	n, err := r.plain.Read(p)
	r.n += int64(n)
	if fault := tensor.CheckRatio(r.n, r.packed.n); fault != nil {
		return n, fault
	}
	return n, err
}

// fill reads r to its end. length is its size, -1 if that is not known. Memory is counted before it is used.
func (s *Server) fill(r io.Reader, offset int, length int64) (*tensor.Buffer, []byte, error) {
	limit := s.opt.MaxBody
	room := min(firstUnknown, limit+1)
	if length >= 0 {
		room = min(length, firstRead)
	}
	buf, err := s.pool.Try(offset+int(room), roomWait)
	if err != nil {
		return nil, nil, err
	}
	at := int64(0)
	for {
		b := buf.Bytes()[offset:]
		n, err := r.Read(b[at:])
		at += int64(n)
		if at > limit {
			err = errTooLarge
		}
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
		room = min(at*32, length) // a client that announces much must send a part of it first
		if length < 0 {
			room = min(at*2, limit+1)
			if at < firstRead {
				room = min(at*8, limit+1)
			}
		}
		next, err := s.pool.Try(offset+int(room), roomWait)
		if err != nil {
			buf.Release()
			return nil, nil, err
		}
		copy(next.Bytes()[offset:], b)
		buf.Release()
		buf = next
	}
}

// decompressor returns a reader of the plain body. Either encoding's name goes with either format, as in Triton.
func decompressor(x *exchange) (io.ReadCloser, error) {
	if e := string(x.contentEncoding); e != "gzip" && e != "deflate" {
		x.accept = true
		return nil, typedError{error: status.New(status.Unsupported, "Unsupported compression type"),
			contentType: typeText}
	}
	head := make([]byte, 2)
	_, err := io.ReadFull(x.body, head)
	if err != nil {
		return nil, errDecompress(x, err)
	}
	r := io.MultiReader(bytes.NewReader(head), x.body)
	var z io.ReadCloser
	if head[0] == 0x1f && head[1] == 0x8b {
		z, err = gzip.NewReader(r)
	} else {
		z, err = zlib.NewReader(r)
	}
	if err != nil {
		return nil, errDecompress(x, err)
	}
	return z, nil
}

// withBody calls f with the request's body; that of a GET is empty.
func (s *Server) withBody(x *exchange, f func(body []byte) error) error {
	if x.is("GET") {
		return f(nil)
	}
	buf, body, err := s.readBody(x, 0)
	if err != nil {
		return err
	}
	defer buf.Release()
	return f(body)
}

// discardBody reads a small body that nobody needs, so that the connection can be used again.
func (s *Server) discardBody(x *exchange) {
	if x.body == nil || x.length == 0 {
		x.drained = true
		return
	}
	if !x.drained && x.length > 0 && x.length <= smallBody {
		x.conn.expect(x.length)
		x.drained = discard(x.body, smallBody)
		x.conn.enter(handling)
	}
}

// discard reads the rest of a body and reports whether it had at most that many bytes.
func discard(body io.Reader, most int64) bool {
	n, err := io.Copy(io.Discard, io.LimitReader(body, most+1))
	return err == nil && n <= most
}

// compressors keeps writers for reuse: each holds hundreds of kilobytes.
type compressors struct{ gzip, zlib sync.Pool }

type resetWriter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// compress compresses the reply of an inference if the client accepts it.
func (s *Server) compress(x *exchange) {
	if len(x.acceptEncoding) == 0 {
		return
	}
	var pool *sync.Pool
	var z resetWriter
	switch x.encoding = chooseEncoding(string(x.acceptEncoding)); x.encoding {
	case "gzip":
		pool = &s.compressors.gzip
		if z, _ = pool.Get().(resetWriter); z == nil {
			z = gzip.NewWriter(io.Discard)
		}
	case "deflate":
		pool = &s.compressors.zlib
		if z, _ = pool.Get().(resetWriter); z == nil {
			z = zlib.NewWriter(io.Discard)
		}
	default:
		return
	}
	plain := x.reply
	var w tensorjson.Builder
	w.Start(&s.pool, len(plain.Bytes())/2+64)
	z.Reset(&w)
	_, _ = z.Write(plain.Bytes()) // a Builder never fails
	_ = z.Close()
	z.Reset(io.Discard)
	pool.Put(z)
	x.reply = w.Finish()
	plain.Release()
}

// chooseEncoding returns gzip or deflate, the one with the higher weight, or the first of equals; "" for neither.
func chooseEncoding(accept string) string {
	best, bestQ := "", 0.0
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "gzip" && name != "deflate" {
			continue
		}
		q := 1.0
		if text, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
			var err error
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		if q > bestQ {
			best, bestQ = name, q
		}
	}
	return best
}
