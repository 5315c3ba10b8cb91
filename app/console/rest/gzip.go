package rest

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// leastGzip is the size of the smallest reply, in bytes, that is compressed.
const leastGzip = 1 << 10

// AcceptsGzip reports whether the client of r takes replies that are compressed with gzip.
func AcceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight = strings.TrimLeft(strings.ToLower(weight), " q=")
			return weight == "" || strings.Trim(weight, " 0.") != "" // a weight of 0 means: not this one
		}
	}
	return false
}

// Gzip compresses data at a level of package gzip.
func Gzip(data []byte, level int) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
