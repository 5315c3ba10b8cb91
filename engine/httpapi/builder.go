package httpapi

import (
	"unsafe"

	"nereid/engine/tensor"
)

// builder appends bytes to pooled memory. Callers append to b; room keeps the appends inside the pooled buffer.
// An append that outgrows it is correct too, it only costs memory of the garbage collector's.
type builder struct {
	pool *tensor.Pool
	buf  *tensor.Buffer
	b    []byte
}

// start takes a buffer of at least n bytes.
func (w *builder) start(pool *tensor.Pool, n int) {
	w.pool = pool
	w.buf = pool.Get(n)
	w.b = w.buf.Bytes()[:0]
}

// room makes sure that n more bytes can be appended in place.
func (w *builder) room(n int) {
	if cap(w.b)-len(w.b) >= n {
		return
	}
	next := w.pool.Get(max(len(w.b)+n, 2*cap(w.b)))
	b := append(next.Bytes()[:0], w.b...)
	w.buf.Release()
	w.buf, w.b = next, b
}

// finish returns the bytes as a buffer; the caller has its reference and the builder is empty.
func (w *builder) finish() *tensor.Buffer {
	buf, b := w.buf, w.b
	w.buf, w.b = nil, nil
	if unsafe.SliceData(b) != unsafe.SliceData(buf.Bytes()[:0]) {
		buf.Release()
		return tensor.NewBuffer(b, nil)
	}
	buf.SetLen(len(b))
	return buf
}

// drop gives the memory back.
func (w *builder) drop() {
	if w.buf != nil {
		w.buf.Release()
		w.buf, w.b = nil, nil
	}
}
