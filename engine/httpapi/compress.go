package httpapi

import (
	"compress/gzip"
	"compress/zlib"
	"io"
	"strconv"
	"strings"
	"sync"
)

// compressors keeps writers for reuse: each holds hundreds of kilobytes.
type compressors struct{ gzip, zlib sync.Pool }

type resetWriter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// compress compresses the reply of an inference if the client takes it. On a failure the plain reply stays.
func (s *Server) compress(x *exchange) {
	if len(x.acceptEncoding) == 0 {
		return
	}
	var (
		pool *sync.Pool
		z    resetWriter
	)
	switch x.encoding = chooseEncoding(view(x.acceptEncoding)); x.encoding {
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
	w := &builder{}
	w.start(&s.pool, len(plain.Bytes())/2+64)
	z.Reset(w)
	_, err := z.Write(plain.Bytes())
	if cerr := z.Close(); err != nil || cerr != nil { // a builder takes everything, so this cannot be
		w.drop()
		x.encoding = ""
		return
	}
	z.Reset(io.Discard)
	pool.Put(z)
	x.reply = w.finish()
	plain.Release()
}

// Write appends p.
func (w *builder) Write(p []byte) (int, error) {
	w.room(len(p))
	w.b = append(w.b, p...)
	return len(p), nil
}

var _ io.Writer = (*builder)(nil)

// chooseEncoding returns gzip or deflate, the one that the client likes better, the first of equals; "" for neither.
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
