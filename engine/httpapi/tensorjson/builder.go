package tensorjson

import (
	"io"
	"unsafe"

	"nereid/engine/tensor"
)

// Builder makes a text in pooled memory. Append to B; Room makes sure that appends of known size stay in the pooled
// buffer. An append that outgrows it is correct too: then the result is in memory of the garbage collector.
type Builder struct {
	B    []byte
	pool *tensor.Pool
	buf  *tensor.Buffer
}

var _ io.Writer = (*Builder)(nil)

// Start takes a buffer of at least n bytes from the pool. Finish or Drop must follow.
func (w *Builder) Start(pool *tensor.Pool, n int) {
	w.pool = pool
	w.buf = pool.Get(n)
	w.B = w.buf.Bytes()[:0]
}

// Room makes room for n more bytes.
func (w *Builder) Room(n int) {
	if cap(w.B)-len(w.B) >= n {
		return
	}
	next := w.pool.Get(max(len(w.B)+n, 2*cap(w.B)))
	b := append(next.Bytes()[:0], w.B...)
	w.buf.Release()
	w.buf, w.B = next, b
}

// Raw appends a text as it is.
func (w *Builder) Raw(text string) {
	w.Room(len(text))
	w.B = append(w.B, text...)
}

// Write appends p.
func (w *Builder) Write(p []byte) (int, error) {
	w.Room(len(p))
	w.B = append(w.B, p...)
	return len(p), nil
}

// Finish returns the text. The caller owns the reference to the buffer; the builder is empty.
func (w *Builder) Finish() *tensor.Buffer {
	buf, b := w.buf, w.B
	w.buf, w.B = nil, nil
	if unsafe.SliceData(b) != unsafe.SliceData(buf.Bytes()[:0]) {
		buf.Release()
		return tensor.NewBuffer(b, nil)
	}
	buf.SetLen(len(b))
	return buf
}

// Drop releases the memory. On an empty builder it does nothing.
func (w *Builder) Drop() {
	if w.buf != nil {
		w.buf.Release()
		w.buf, w.B = nil, nil
	}
}
