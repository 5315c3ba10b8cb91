package frames

import (
	"encoding/binary"

	"nereid/engine/status"
)

// Version is the protocol's version.
const Version = 1

// Kind is the kind of a frame.
type Kind uint16

// The kinds of frames; see PROTOCOL.md.
const (
	KindCall Kind = 1 + iota
	KindReply
	KindExecute
	KindResponses
	KindBLS
	KindBLSResponse
	KindBLSCancel
	KindLog
	KindMetric
	KindHello
	KindBLSWait
	KindTrace
	KindReport
)

// Flags of a frame.
const (
	flagArena  = 1 // the body lies in an arena
	FlagDone   = 2 // RESPONSES: the execution is over
	FlagSeries = 4 // EXECUTE: the requests are executed one after the other
	// LevelShift is where the flags of an EXECUTE have the Levels of the server's log.
	LevelShift = 4
)

const (
	// HeaderSize is the size of a frame's header in bytes.
	HeaderSize = 16
	// MaxPacket is the largest size of a packet in bytes, with header and body.
	MaxPacket = 65536
	// inlineMax is the size in bytes up to which a tensor's data travels in its frame; inlineBudget is how much of a
	// frame such data may take.
	inlineMax    = 8192
	inlineBudget = 49152
)

// Places of a tensor's data.
const (
	inFrame = iota
	inDown
	inUp
)

// tensorState is the flag of a tensor in a response that is an implicit state of the sequence.
const tensorState = 1

// Flags of a request, a response and a BLS request.
const (
	requestTraced = 4
	requestRaw    = 8

	responseFinal      = 1
	responseError      = 2
	responseEmpty      = 4
	responseReschedule = 8
	responseReported   = 16

	blsStream    = 1
	blsTraced    = 2
	blsBlocking  = 4
	blsUnawaited = 8
)

// errFrame is the error of a frame that does not decode.
var errFrame = status.New(status.Internal, "a frame ends early or contradicts itself")

// Header precedes a frame's body.
type Header struct {
	Kind   Kind
	Flags  uint16
	Length uint32 // of the body, in bytes
	ID     uint64
}

// Put writes the header into the first HeaderSize bytes of b.
func (h Header) Put(b []byte) {
	binary.LittleEndian.PutUint16(b, uint16(h.Kind))
	binary.LittleEndian.PutUint16(b[2:], h.Flags)
	binary.LittleEndian.PutUint32(b[4:], h.Length)
	binary.LittleEndian.PutUint64(b[8:], h.ID)
}

// KindOf returns the kind of the frame in a packet; 0: it has no header.
func KindOf(packet []byte) Kind {
	if len(packet) < HeaderSize {
		return 0
	}
	return Kind(binary.LittleEndian.Uint16(packet))
}

// parsePacket splits a packet into header and body.
func parsePacket(b []byte) (h Header, body []byte, err error) {
	if len(b) < HeaderSize {
		return h, nil, status.Errorf(status.Internal, "a frame of %d bytes is shorter than its header", len(b))
	}
	h = Header{
		Kind: Kind(binary.LittleEndian.Uint16(b)), Flags: binary.LittleEndian.Uint16(b[2:]),
		Length: binary.LittleEndian.Uint32(b[4:]), ID: binary.LittleEndian.Uint64(b[8:]),
	}
	if int(h.Length) != len(b)-HeaderSize {
		return h, nil, status.Errorf(status.Internal,
			"a frame says that its body has %d bytes and it has %d", h.Length, len(b)-HeaderSize)
	}
	return h, b[HeaderSize:], nil
}

// cursor reads numbers and bytes of a body. A read past the end sets bad and returns zeros.
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

// record returns a cursor over a record, which begins with its size as a u32, and skips it. The record must have at
// least minSize bytes. Positions in it count from its start.
func (c *cursor) record(minSize int) cursor {
	start := c.at
	size := int(c.u32())
	if c.bad || size < minSize || size&7 != 0 || size > len(c.b)-start {
		c.bad = true
		return cursor{bad: true}
	}
	r := cursor{b: c.b[start : start+size : start+size], at: 4}
	c.at = start + size
	return r
}
