package h2

import (
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/mem"

	"nereid/engine/system/socket"
)

// copyBelow is the size under which a piece of a message is copied into the frames. Larger ones are referred to.
const copyBelow = 4 << 10

// output is pending output: frames in b, and between them pieces of messages that are not copied.
type output struct {
	b      []byte
	pieces []piece
	size   int          // bytes of pieces
	owners []mem.Buffer // released once all is written
	vec    net.Buffers
}

// piece stands before b[at:].
type piece struct {
	at   int
	data []byte
}

func (o *output) empty() bool { return len(o.b) == 0 && len(o.pieces) == 0 }

func (o *output) refer(data []byte) {
	o.pieces = append(o.pieces, piece{len(o.b), data})
	o.size += len(data)
}

// ping appends a PING frame.
func (o *output) ping(payload string, flags byte) {
	o.b = append(appendHead(o.b, len(payload), framePing, flags, 0), payload...)
}

// goAway appends a GOAWAY frame. last is the last stream that the server serves.
func (o *output) goAway(last uint32, code errCode, text string) {
	b := appendHead(o.b, 8+len(text), frameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	o.b = append(b, text...)
}

// writePiece is how many bytes are written at once. A client that reads so many in the time that it may stall makes
// progress.
const writePiece = 1 << 20

// write writes all, and counts the pieces in which it does so.
func (o *output) write(w io.Writer, pieces *atomic.Uint32) error {
	pieces.Add(1)
	if len(o.pieces) == 0 {
		for b := o.b; ; pieces.Add(1) {
			n := min(len(b), writePiece)
			if _, err := w.Write(b[:n]); err != nil || n == len(b) {
				return err
			}
			b = b[n:]
		}
	}
	vec, from := o.vec[:0], 0
	for _, p := range o.pieces {
		if p.at > from {
			vec = append(vec, o.b[from:p.at])
			from = p.at
		}
		vec = append(vec, p.data)
	}
	if from < len(o.b) {
		vec = append(vec, o.b[from:])
	}
	o.vec = vec
	var err error
	for err == nil && len(vec) > 0 {
		size, n := 0, 0
		for n < len(vec) && (n == 0 || size+len(vec[n]) <= writePiece) {
			size += len(vec[n])
			n++
		}
		part := vec[:n] // WriteTo moves its receiver along
		if s, ok := w.(*socket.Conn); ok {
			_, err = s.WriteBuffers(&part)
		} else {
			_, err = part.WriteTo(w)
		}
		vec = vec[n:]
		pieces.Add(1)
	}
	clear(o.vec)
	return err
}

// join appends next, and empties it.
func (o *output) join(next *output) {
	for _, p := range next.pieces {
		o.pieces = append(o.pieces, piece{len(o.b) + p.at, p.data})
	}
	o.b = append(o.b, next.b...)
	o.size += next.size
	o.owners = append(o.owners, next.owners...)
	clear(next.owners)
	next.owners = next.owners[:0]
	next.reset()
}

// reset empties o and releases what it refers to.
func (o *output) reset() {
	for i, b := range o.owners {
		b.Free()
		o.owners[i] = nil
	}
	clear(o.pieces)
	o.b, o.pieces, o.owners, o.size = o.b[:0], o.pieces[:0], o.owners[:0], 0
	if cap(o.b) > 128<<10 { // memory of a burst is not kept
		o.b = nil
	}
	if cap(o.pieces) > 1024 {
		o.pieces, o.vec, o.owners = nil, nil, nil
	}
}
