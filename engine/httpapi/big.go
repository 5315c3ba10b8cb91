package httpapi

import (
	"net"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// bigOutput is the least bytes of a binary output that goes from its own memory to the connection; a smaller one is
// copied behind the JSON text, which costs less than another write.
const bigOutput = 64 << 10

// bigParts are the outputs of a reply that are not copied into it. It holds a reference on each until release.
type bigParts struct {
	parts   []bigPart
	pieces  [][]byte // storage of buffers
	buffers net.Buffers
}

// bigPart is an output that belongs before byte at of the rest of the reply.
type bigPart struct {
	at   int
	data []byte
	buf  *tensor.Buffer // nil: the garbage collector's memory
}

func (b *bigParts) add(at int, t *tensor.Tensor) {
	t.Retain()
	b.parts = append(b.parts, bigPart{at, t.Data, t.Buf})
}

// body returns the whole reply, whose rest is given, and its length. The library writes it piece by piece.
func (b *bigParts) body(rest []byte) (whole *net.Buffers, size int) {
	b.pieces = b.pieces[:0]
	from := 0
	size = len(rest)
	for _, p := range b.parts {
		b.pieces = append(b.pieces, rest[from:p.at], p.data)
		from = p.at
		size += len(p.data)
	}
	b.pieces = append(b.pieces, rest[from:])
	b.buffers = b.pieces
	return &b.buffers, size
}

// release lets go of the outputs.
func (b *bigParts) release() {
	if len(b.parts) == 0 {
		return
	}
	for i := range b.parts {
		if buf := b.parts[i].buf; buf != nil {
			buf.Release()
		}
	}
	clear(b.parts)
	clear(b.pieces)
	b.parts, b.pieces, b.buffers = b.parts[:0], b.pieces[:0], nil
}

// size guesses the bytes of a reply without its big outputs.
func (o reply) size(r *infer.Request, resp *infer.Response) int {
	if o.big == nil {
		return replySize(resp)
	}
	n := 512
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		n += 128
		if asBinary, _, _ := o.wish(r, t.Name); !asBinary {
			n += len(t.Data) * 2
		} else if len(t.Data) < bigOutput {
			n += len(t.Data)
		}
	}
	return n
}
