package h2

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/mem"

	"nereid/engine/tensor"
)

func canDecompress(name string) bool { return name == "gzip" || name == "deflate" }

// decompress returns the content of b, and releases b. Errors: errTooLarge for content larger than limit,
// tensor.ErrRatio, and tensor.ErrNoRoom; any other is about the content.
func decompress(name string, b *tensor.Buffer, limit int, pool *tensor.Pool) (*tensor.Buffer, error) {
	defer b.Release()
	var r io.ReadCloser
	var err error
	if name == "gzip" {
		r, err = gzip.NewReader(bytes.NewReader(b.Bytes()))
	} else {
		r, err = zlib.NewReader(bytes.NewReader(b.Bytes())) // gRPC's deflate is zlib's format
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out, err := pool.Try(min(4*len(b.Bytes())+512, limit+1), roomWait)
	if err != nil {
		return nil, err
	}
	n := 0
	for {
		if n == len(out.Bytes()) {
			if n > limit {
				out.Release()
				return nil, errTooLarge
			}
			bigger, err := grow(out, n, min(2*n, limit+1), roomWait, pool)
			if err != nil {
				out.Release()
				return nil, err
			}
			out = bigger
		}
		k, err := r.Read(out.Bytes()[n:])
		n += k
		if fault := tensor.CheckRatio(int64(n), int64(len(b.Bytes()))); fault != nil {
			out.Release()
			return nil, fault
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			out.Release()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if n > limit {
		out.Release()
		return nil, errTooLarge
	}
	out.SetLen(n)
	return out, nil
}

// grow returns a buffer of size bytes with the first n of b, and releases b. It waits at most for patience until there
// is room. After an error b is as it was.
func grow(b *tensor.Buffer, n, size int, patience time.Duration, pool *tensor.Pool) (*tensor.Buffer, error) {
	bigger, err := pool.Try(size, patience)
	if err != nil {
		return nil, err
	}
	copy(bigger.Bytes(), b.Bytes()[:n])
	b.Release()
	return bigger, nil
}

// compress returns the content of msg compressed.
func compress(name string, msg mem.BufferSlice) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	if name == "gzip" {
		w = gzip.NewWriter(&out)
	} else {
		w = zlib.NewWriter(&out)
	}
	for _, b := range msg {
		if _, err := w.Write(b.ReadOnlyData()); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// answerEncoding chooses the compression of answers: the client's own if it accepts that, else the first of gzip and
// deflate that it accepts, else none.
func answerEncoding(r *request) string {
	accepts := func(name string) bool {
		for v := range strings.SplitSeq(r.accept, ",") {
			if strings.TrimSpace(v) == name {
				return true
			}
		}
		return false
	}
	for _, name := range []string{r.compression, "gzip", "deflate"} {
		if canDecompress(name) && accepts(name) {
			return name
		}
	}
	return ""
}
