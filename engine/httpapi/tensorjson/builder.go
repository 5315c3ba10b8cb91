package tensorjson

import (
	"io"
	"time"
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
	if cap(w.B)-len(w.B) < n {
		w.move(w.pool.Get(w.larger(n)))
	}
}

const (
	// freeSize is the size in bytes up to which a text is made without regard to the limit of the budget.
	freeSize = 1 << 20
	// doubleSize is the size up to which it doubles. Then it grows by a quarter, because both buffers are in use.
	doubleSize = 16 << 20
	// growPatience is how long Grow waits for memory.
	growPatience = time.Second
)

// Grow is Room within the limit of the budget, for what a request makes large: an element of one byte may need six in
// JSON. Errors: those of tensor.Budget.Take.
func (w *Builder) Grow(n int) error {
	if cap(w.B)-len(w.B) >= n {
		return nil
	}
	size := w.larger(n)
	if size <= freeSize {
		w.move(w.pool.Get(size))
		return nil
	}
	next, err := w.pool.Try(size, growPatience)
	if err == nil {
		w.move(next)
	}
	return err
}

// larger returns the size of the next buffer, with room for n more bytes.
func (w *Builder) larger(n int) int {
	grown := cap(w.B) * 2
	if grown > doubleSize {
		grown = cap(w.B) + cap(w.B)/4
	}
	return max(len(w.B)+n, grown)
}

// move goes on in another buffer.
func (w *Builder) move(next *tensor.Buffer) {
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
