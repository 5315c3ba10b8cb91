package h2

import (
	"encoding/binary"
	"errors"

	"nereid/engine/tensor"
)

// prefixSize is the size of the prefix of every gRPC message: a flag and the message's length.
const prefixSize = 5

func appendPrefix(b []byte, flag byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, flag), uint32(n))
}

// wholeAt is the size up to which a message's buffer is made at once. A larger one grows as its bytes come, unless it
// may be reserved.
const wholeAt = 256 << 10

var errTooLarge = errors.New("message too large")

// assembler makes messages of the bytes of a call. Only the reader uses it.
type assembler struct {
	prefix [prefixSize]byte
	have   int // bytes of prefix that have come
	body   *tensor.Buffer
	filled int // bytes of body that have come
	size   int // of the message
	flag   byte

	reserved int // bytes of body that reserve allowed
}

// partial reports whether a message has begun and not ended.
func (a *assembler) partial() bool { return a.have > 0 }

// wanted returns how many bytes of the message must arrive within StallTimeout. A client that sends less keeps memory
// and does not use it.
func (a *assembler) wanted() int {
	if a.have < prefixSize {
		return 0
	}
	return min(a.size/16, mostProgress)
}

// feed takes bytes of p and returns the rest. done: a message has come whole; take returns it. The errors are
// errTooLarge and those of Pool.Try. reserve reports whether the buffer of a large message may be made at once;
// nil: it may not.
func (a *assembler) feed(
	p []byte, limit int, pool *tensor.Pool, reserve func(size int) bool,
) (rest []byte, done bool, err error) {
	if a.have < prefixSize {
		n := copy(a.prefix[a.have:], p)
		a.have += n
		p = p[n:]
		if a.have < prefixSize {
			return p, false, nil
		}
		size := binary.BigEndian.Uint32(a.prefix[1:])
		a.flag = a.prefix[0]
		if int64(size) > int64(limit) {
			a.size = int(size)
			return p, false, errTooLarge
		}
		if err := pool.Budget.Check(int64(size)); err != nil {
			return p, false, err
		}
		a.size, a.filled = int(size), 0
		if a.size > wholeAt && reserve != nil && reserve(a.size) {
			a.reserved = a.size
			a.body, err = pool.Try(a.size, 0)
		} else {
			a.body, err = pool.Try(min(a.size, wholeAt), 0)
		}
		if err != nil {
			return p, false, err
		}
	}
	for len(p) > 0 && a.filled < a.size {
		room, err := a.room(pool)
		if err != nil {
			return p, false, err
		}
		n := copy(room, p)
		a.filled += n
		p = p[n:]
	}
	return p, a.filled == a.size, nil
}

// room returns where the next bytes of the message go. It is empty outside a message's body. Errors: those of Pool.Try.
func (a *assembler) room(pool *tensor.Pool) ([]byte, error) {
	if a.have < prefixSize || a.filled == a.size {
		return nil, nil
	}
	if a.filled == len(a.body.Bytes()) {
		bigger, err := grow(a.body, a.filled, min(a.size, 4*a.filled), 0, pool)
		if err != nil {
			return nil, err
		}
		a.body = bigger
	}
	return a.body.Bytes()[a.filled:], nil
}

// take returns the whole message with its reference.
func (a *assembler) take() *tensor.Buffer {
	b := a.body
	a.have, a.body, a.reserved = 0, nil, 0
	return b
}

// drop releases a message that will not be finished.
func (a *assembler) drop() {
	if a.body != nil {
		a.body.Release()
	}
	a.have, a.body, a.reserved = 0, nil, 0
}
