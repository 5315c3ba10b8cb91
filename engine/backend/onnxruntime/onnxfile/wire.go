package onnxfile

import (
	"errors"
	"fmt"
	"io"
)

// ErrMalformed is wrapped by errors about bytes that are not a protocol buffer.
var ErrMalformed = errors.New("not a protocol buffer")

// reader reads a file through a window. Skipped bytes are not read.
type reader struct {
	r      io.ReaderAt
	size   int64
	start  int64
	window []byte
}

const windowSize = 32 << 10

// at returns 1 to n bytes at an offset of the file. They are valid until the next call.
func (r *reader) at(off int64, n int) ([]byte, error) {
	if off < 0 || off >= r.size {
		return nil, fmt.Errorf("%w: it ends at byte %d", ErrMalformed, off)
	}
	if at := off - r.start; at >= 0 && at < int64(len(r.window)) && (at+int64(n) <= int64(len(r.window)) ||
		r.start+int64(len(r.window)) == r.size) {
		return r.window[at:min(at+int64(n), int64(len(r.window)))], nil
	}
	if r.window == nil {
		r.window = make([]byte, 0, windowSize)
	}
	r.window = r.window[:min(windowSize, r.size-off)]
	r.start = off
	if k, err := r.r.ReadAt(r.window, off); k < len(r.window) {
		r.window = r.window[:0]
		return nil, fmt.Errorf("read byte %d: %w", off, err)
	}
	return r.window[:min(n, len(r.window))], nil
}

// varint reads a number and returns the offset after it.
func (r *reader) varint(off, end int64) (uint64, int64, error) {
	b, err := r.at(off, 10)
	if err != nil {
		return 0, 0, err
	}
	var v uint64
	for i, c := range b {
		if off+int64(i) >= end {
			break
		}
		if i == 9 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, off + int64(i) + 1, nil
		}
	}
	return 0, 0, fmt.Errorf("%w: bad number at byte %d", ErrMalformed, off)
}

// field is a field of a message. Its content is value (wire type 0) or the bytes from off to end (types 1, 2 and 5).
type field struct {
	number int
	wire   int
	value  uint64
	off    int64
	end    int64
}

// fields calls visit for each field of the message from off to end. It skips groups.
func (r *reader) fields(off, end int64, visit func(field) error) error {
	for off < end {
		f, next, err := r.field(off, end)
		if err != nil {
			return err
		}
		if f.wire == 3 {
			if next, err = r.skipGroup(next, end); err != nil {
				return err
			}
		} else if err := visit(f); err != nil {
			return err
		}
		off = next
	}
	return nil
}

func (r *reader) field(off, end int64) (f field, next int64, err error) {
	at := off
	tag, off, err := r.varint(off, end)
	if err != nil {
		return f, 0, err
	}
	if tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return f, 0, fmt.Errorf("%w: bad field at byte %d", ErrMalformed, at)
	}
	f.number, f.wire = int(tag>>3), int(tag&7)
	size := int64(0)
	switch f.wire {
	case 0:
		f.value, off, err = r.varint(off, end)
		return f, off, err
	case 1:
		size = 8
	case 5:
		size = 4
	case 2:
		n, o, err := r.varint(off, end)
		if err != nil {
			return f, 0, err
		}
		if n > uint64(end-o) {
			return f, 0, fmt.Errorf("%w: field %d at byte %d has %d bytes, %d are left", ErrMalformed, f.number, at,
				n, end-o)
		}
		off, size = o, int64(n)
	case 3, 4:
		return f, off, nil
	default:
		return f, 0, fmt.Errorf("%w: bad wire type at byte %d", ErrMalformed, at)
	}
	if size > end-off {
		return f, 0, fmt.Errorf("%w: field %d at byte %d ends too late", ErrMalformed, f.number, at)
	}
	f.off, f.end = off, off+size
	return f, f.end, nil
}

// skipGroup returns the offset after a group.
func (r *reader) skipGroup(off, end int64) (int64, error) {
	for depth := 1; depth > 0; {
		f, next, err := r.field(off, end)
		if err != nil {
			return 0, err
		}
		switch f.wire {
		case 3:
			depth++
		case 4:
			depth--
		}
		off = next
	}
	return off, nil
}

// text returns the bytes of a field. More than limit bytes are an error.
func (r *reader) text(f field, limit int64) (string, error) {
	if f.end-f.off > limit {
		return "", fmt.Errorf("a text of %d bytes at byte %d; at most %d are allowed", f.end-f.off, f.off, limit)
	}
	if f.end == f.off {
		return "", nil
	}
	if n := f.end - f.off; n <= windowSize {
		b, err := r.at(f.off, int(n))
		return string(b), err
	}
	b := make([]byte, f.end-f.off)
	if k, err := r.r.ReadAt(b, f.off); k < len(b) {
		return "", fmt.Errorf("read byte %d: %w", f.off, err)
	}
	return string(b), nil
}
