package h2

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Indices of HPACK's static table, RFC 7541 appendix A.
const (
	staticStatus200   = 8
	staticStatus      = 8 // any entry named :status serves
	staticContentType = 31
	dynamicFirst      = 62
)

const (
	grpcContentType = "application/grpc"
	tableSize       = 4096 // the table that every decoder has unless it says otherwise
)

// encoder writes header blocks. The fields of nearly every answer are put into the peer's dynamic table once, and are
// one byte from then on. Nothing else is inserted, so that their places are known. Blocks must be sent in the order
// in which they were appended.
type encoder struct {
	plain    bool // nothing is inserted: the peer wants a small table
	shrink   bool // the next block begins with the size update that empties the table
	inserted int
	typeAt   int // the content type was the typeAt-th insertion; 0: it is not inserted
	okAt     int // the same of "grpc-status: 0"
}

// limit takes the peer's SETTINGS_HEADER_TABLE_SIZE.
func (e *encoder) limit(size uint32) {
	if size < tableSize && !e.plain {
		*e = encoder{plain: true, shrink: true}
	}
}

func (e *encoder) begin(b []byte) []byte {
	if e.shrink {
		e.shrink = false
		return append(b, 0x20) // dynamic table size update: 0
	}
	return b
}

func (e *encoder) index(at int) byte { return 0x80 | byte(dynamicFirst+e.inserted-at) }

// headers appends ":status: 200" and the content type.
func (e *encoder) headers(b []byte) []byte {
	b = append(e.begin(b), 0x80|staticStatus200)
	switch {
	case e.plain:
		b = appendPrefixed(b, 4, staticContentType)
		return appendText(b, grpcContentType)
	case e.typeAt > 0:
		return append(b, e.index(e.typeAt))
	}
	e.inserted++
	e.typeAt = e.inserted
	b = append(b, 0x40|staticContentType)
	return appendText(b, grpcContentType)
}

// statusOK appends "grpc-status: 0".
func (e *encoder) statusOK(b []byte) []byte {
	b = e.begin(b)
	switch {
	case e.plain:
		return appendField(b, "grpc-status", "0")
	case e.okAt > 0:
		return append(b, e.index(e.okAt))
	}
	e.inserted++
	e.okAt = e.inserted
	return appendText(appendText(append(b, 0x40), "grpc-status"), "0")
}

// status appends grpc-status, grpc-message and grpc-status-details-bin.
func (e *encoder) status(b []byte, st *grpcstatus.Status) []byte {
	if st.Code() == codes.OK && st.Message() == "" {
		return e.statusOK(b)
	}
	b = appendField(e.begin(b), "grpc-status", strconv.Itoa(int(st.Code())))
	b = appendField(b, "grpc-message", percentEncode(st.Message()))
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		p = proto.CloneOf(p)
		if raw, err := proto.Marshal(p); err == nil { // details that cannot be encoded are left out
			b = appendField(b, "grpc-status-details-bin", base64.RawStdEncoding.EncodeToString(raw))
		}
	}
	return b
}

// appendMetadata appends the metadata that a handler set. Names that are reserved for the protocol are left out.
func appendMetadata(b []byte, md metadata.MD) []byte {
	for name, values := range md {
		if reserved(name) {
			continue
		}
		for _, v := range values {
			if isBinary(name) {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			b = appendField(b, name, v)
		}
	}
	return b
}

// appendField appends a literal that is not indexed.
func appendField(b []byte, name, value string) []byte {
	return appendText(appendText(append(b, 0x00), name), value)
}

func appendText(b []byte, s string) []byte {
	return append(appendPrefixed(b, 7, len(s)), s...)
}

// appendPrefixed appends an integer with an n-bit prefix, RFC 7541 section 5.1. The bits before the prefix are 0.
func appendPrefixed(b []byte, n, v int) []byte {
	limit := 1<<n - 1
	if v < limit {
		return append(b, byte(v))
	}
	b = append(b, byte(limit))
	for v -= limit; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

const upperHex = "0123456789ABCDEF"

// percentEncode encodes a status message as gRPC sends it: printable ASCII as it is, other bytes of its UTF-8 as %XX.
func percentEncode(s string) string {
	plain := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '%' {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for _, r := range s { // what is not UTF-8 becomes U+FFFD
		if r >= ' ' && r <= '~' && r != '%' {
			b = append(b, byte(r))
			continue
		}
		var u [utf8.UTFMax]byte
		for _, c := range u[:utf8.EncodeRune(u[:], r)] {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}
