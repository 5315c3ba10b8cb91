package worker

import (
	"encoding/binary"

	"nereid/engine/status"
)

// Version is the protocol's; see PROTOCOL.md for all that is named here.
const Version = 1

type kind uint16

const (
	kindCall kind = 1 + iota
	kindReply
	kindExecute
	kindResponses
	kindBLS
	kindBLSResponse
	kindBLSCancel
	kindLog
	kindMetric
	kindHello
	kindBLSWait
)

const (
	flagFar  = 1 // the body lies in an arena
	flagDone = 2 // RESPONSES: the execution is over
	flagEach = 4 // EXECUTE: the requests are executed one after the other
)

const (
	headerSize = 16
	maxPacket  = 65536
	// inlineMost is how large a tensor's data may be to travel in its frame, inlineBudget how much a frame takes of it.
	inlineMost   = 8192
	inlineBudget = 49152
	noState      = 0xffffffff
)

// Places of a tensor's data.
const (
	inFrame = iota
	inDown
	inUp
)

// Flags of a request and of a response.
const (
	requestTraced = 4

	responseFinal      = 1
	responseError      = 2
	responseEmpty      = 4
	responseReschedule = 8

	blsStream = 1
	blsTraced = 2
	blsHolds  = 4
	blsLoose  = 8
)

type header struct {
	kind   kind
	flags  uint16
	length uint32
	id     uint64
}

func putHeader(b []byte, h header) {
	binary.LittleEndian.PutUint16(b, uint16(h.kind))
	binary.LittleEndian.PutUint16(b[2:], h.flags)
	binary.LittleEndian.PutUint32(b[4:], h.length)
	binary.LittleEndian.PutUint64(b[8:], h.id)
}

// parsePacket splits a packet into header and body.
func parsePacket(b []byte) (h header, body []byte, err error) {
	if len(b) < headerSize {
		return h, nil, status.Errorf(status.Internal, "a frame of %d bytes is shorter than its header", len(b))
	}
	h = header{
		kind: kind(binary.LittleEndian.Uint16(b)), flags: binary.LittleEndian.Uint16(b[2:]),
		length: binary.LittleEndian.Uint32(b[4:]), id: binary.LittleEndian.Uint64(b[8:]),
	}
	if int(h.length) != len(b)-headerSize {
		return h, nil, status.Errorf(status.Internal, "a frame says that its body has %d bytes and it has %d", h.length, len(b)-headerSize)
	}
	return h, b[headerSize:], nil
}

// cursor reads numbers and bytes off a body. Reading past the end sets bad and gives zeros.
type cursor struct {
	b   []byte
	at  int
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b)-c.at {
		c.bad = true
		c.at = len(c.b)
		return nil
	}
	b := c.b[c.at : c.at+n : c.at+n]
	c.at += n
	return b
}

func (c *cursor) u8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// pad skips to a multiple of 8.
func (c *cursor) pad() { c.take(-c.at & 7) }

// record returns a cursor over a record whose u32 size comes first, and skips it. Its positions are from its own start.
func (c *cursor) record(least int) cursor {
	start := c.at
	size := int(c.u32())
	if c.bad || size < least || size&7 != 0 || size > len(c.b)-start {
		c.bad = true
		return cursor{bad: true}
	}
	r := cursor{b: c.b[start : start+size : start+size], at: 4}
	c.at = start + size
	return r
}
