package h2

import (
	"encoding/binary"
	"fmt"
)

// Frame types, RFC 9113 section 6.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameReset        = 0x3
	frameSettings     = 0x4
	framePush         = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
)

// Flags.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings, RFC 9113 section 6.5.2.
const (
	settingTableSize     = 0x1
	settingPush          = 0x2
	settingMaxStreams    = 0x3
	settingInitialWindow = 0x4
	settingMaxFrame      = 0x5
	settingMaxHeaderList = 0x6
)

// errCode is an HTTP/2 error code, RFC 9113 section 7.
type errCode uint32

const (
	codeNo              errCode = 0x0
	codeProtocol        errCode = 0x1
	codeInternal        errCode = 0x2
	codeFlowControl     errCode = 0x3
	codeStreamClosed    errCode = 0x5
	codeFrameSize       errCode = 0x6
	codeRefused         errCode = 0x7
	codeCancel          errCode = 0x8
	codeCompression     errCode = 0x9
	codeEnhanceYourCalm errCode = 0xb
)

const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	headSize      = 9
	maxFrame      = 16 << 10 // of a frame's payload: the initial limit, and the smallest that a peer may set
	maxFrameLimit = 1<<24 - 1
	maxWindow     = 1<<31 - 1
	initialWindow = 65535
)

// connError closes the connection with a GOAWAY.
type connError struct {
	code errCode
	text string
}

func (e *connError) Error() string {
	return fmt.Sprintf("HTTP/2 error %#x: %s", uint32(e.code), e.text)
}

func protocolError(text string) error { return &connError{codeProtocol, text} }

// frameHead is a frame's first nine bytes.
type frameHead struct {
	length      int
	kind, flags byte
	id          uint32
}

func parseHead(b []byte) frameHead {
	_ = b[headSize-1]
	return frameHead{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]), kind: b[3], flags: b[4],
		id: number31(b[5:]),
	}
}

// number31 reads a number of 31 bits; the bit before it is reserved.
func number31(b []byte) uint32 { return binary.BigEndian.Uint32(b) & (1<<31 - 1) }

func appendHead(b []byte, length int, kind, flags byte, id uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), kind, flags,
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

// appendWords appends a frame whose payload is 32-bit numbers.
func appendWords(b []byte, kind byte, id uint32, words ...uint32) []byte {
	b = appendHead(b, 4*len(words), kind, 0, id)
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

func appendSetting(b []byte, id uint16, v uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, id), v)
}

// unpad returns a payload without its padding.
func unpad(h frameHead, p []byte) ([]byte, error) {
	if h.flags&flagPadded == 0 {
		return p, nil
	}
	if len(p) == 0 {
		return nil, &connError{codeFrameSize, "a padded frame without a pad length"}
	}
	pad := int(p[0])
	if pad >= len(p) {
		return nil, protocolError("padding as long as the frame")
	}
	return p[1 : len(p)-pad], nil
}
