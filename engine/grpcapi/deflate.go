package grpcapi

import (
	"compress/zlib"
	"fmt"
	"io"
)

// deflate reads requests with grpc-encoding "deflate", which is zlib's format. grpc-go brings gzip only.
type deflate struct{ limit int }

// Type returns the encoding's name.
func (deflate) Type() string { return "deflate" }

// Do returns the content of a compressed message, or its first limit+1 bytes: grpc-go then refuses it as too large.
func (d deflate) Do(r io.Reader) ([]byte, error) {
	z, err := zlib.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("deflate: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, int64(d.limit)+1))
	if err != nil {
		return nil, fmt.Errorf("deflate: %w", err)
	}
	return b, z.Close()
}
