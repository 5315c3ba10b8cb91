package h2

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
)

// request is the content of a call's headers. All calls of a connection with the same header block share it. It is not
// changed after it is made.
type request struct {
	method      *method // nil: unknown
	path        string
	ctx         context.Context // the connection's, with the metadata
	timeout     time.Duration   // 0: none
	compression string          // of the messages; "" is none
	accept      string          // grpc-accept-encoding
	length      int64           // content-length; -1: none

	pseudo    bool               // has pseudo-headers
	faulty    bool               // has a field that is not allowed
	malformed string             // why the stream is reset: this is not HTTP; "": it is not reset
	refusal   *grpcstatus.Status // the call ends with this status; nil: it is served
	http      int                // the HTTP status of a refusal; 0: 200
}

// headerReader turns header blocks into requests.
type headerReader struct {
	c   *conn
	dec *hpack.Decoder

	// The block that is being decoded.
	req       *request
	md        metadata.MD
	size      uint32 // as RFC 9113 counts it
	tooLarge  bool
	regular   bool // a field that is not a pseudo-header has come
	pseudo    [4]bool
	verb      string
	kind      string // content-type
	kindKnown bool

	// Requests by their block. The same bytes have the same meaning as long as the dynamic table does not change. A
	// block that consists of indices does not change it.
	known [8]knownBlock
	next  int
}

type knownBlock struct {
	block []byte
	req   *request
}

func newHeaderReader(c *conn) *headerReader {
	h := &headerReader{c: c}
	h.dec = hpack.NewDecoder(tableSize, h.collect)
	h.dec.SetMaxStringLength(2 * int(c.srv.o.MaxHeaderBytes)) // longer blocks are not read at all
	return h
}

// read decodes a header block. After an error the connection must be closed: the tables of the two sides differ.
func (h *headerReader) read(block []byte) (*request, error) {
	indexed := onlyIndices(block)
	if indexed {
		for i := range h.known {
			if k := &h.known[i]; k.req != nil && bytes.Equal(k.block, block) {
				return k.req, nil
			}
		}
	} else {
		h.known, h.next = [len(h.known)]knownBlock{}, 0
	}
	if err := h.decode(block); err != nil {
		return nil, err
	}
	req := h.req
	if indexed && len(block) <= 256 {
		h.known[h.next] = knownBlock{bytes.Clone(block), req}
		h.next = (h.next + 1) % len(h.known)
	}
	return req, nil
}

// onlyIndices reports whether a block consists of indexed fields.
func onlyIndices(b []byte) bool {
	for i := 0; i < len(b); i++ {
		if b[i]&0x80 == 0 {
			return false
		}
		if b[i] == 0xff { // the index has more bytes
			for i++; i < len(b) && b[i]&0x80 != 0; i++ {
			}
		}
	}
	return true
}

func (h *headerReader) decode(block []byte) error {
	h.req, h.md, h.size, h.tooLarge = &request{length: -1}, make(metadata.MD, 8), 0, false
	h.regular, h.pseudo, h.verb, h.kind, h.kindKnown = false, [4]bool{}, "", "", false
	h.dec.SetEmitEnabled(true)
	if _, err := h.dec.Write(block); err != nil {
		return &connError{codeCompression, err.Error()}
	}
	if err := h.dec.Close(); err != nil {
		return &connError{codeCompression, err.Error()}
	}
	h.finish()
	return nil
}

func (h *headerReader) collect(f hpack.HeaderField) {
	if h.size += f.Size(); h.size > h.c.srv.o.MaxHeaderBytes {
		h.tooLarge = true
		h.dec.SetEmitEnabled(false)
		return
	}
	h.field(f)
}

func (h *headerReader) field(f hpack.HeaderField) {
	if strings.HasPrefix(f.Name, ":") {
		h.pseudoField(f)
		return
	}
	h.regular = true
	if !validName(f.Name) || !validValue(f.Value) {
		h.bad("a header field with a name or value that HTTP/2 does not allow")
		return
	}
	r := h.req
	switch f.Name {
	case "content-type":
		h.kind, h.kindKnown = f.Value, true
		h.md[f.Name] = append(h.md[f.Name], f.Value)
	case "te":
		if f.Value != "trailers" {
			h.bad("te is not trailers")
		}
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		h.bad("a header field of connections: " + f.Name)
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || r.length >= 0 && r.length != int64(n) {
			h.bad("content-length is not one number")
			return
		}
		r.length = int64(n)
	case "grpc-timeout":
		d, err := parseTimeout(f.Value)
		if err != nil {
			h.refuse(codes.Internal, "malformed grpc-timeout: "+err.Error())
			return
		}
		r.timeout = d
	case "grpc-encoding":
		if f.Value != "identity" {
			r.compression = f.Value
		}
	case "grpc-accept-encoding":
		r.accept = f.Value
	case "host":
		if !h.pseudo[3] {
			h.md[":authority"] = []string{f.Value}
		}
	default:
		h.metadata(f)
	}
}

// metadata adds a field to the metadata that handlers see.
func (h *headerReader) metadata(f hpack.HeaderField) {
	if f.Name != "user-agent" && reserved(f.Name) {
		return
	}
	v := f.Value
	if isBinary(f.Name) {
		b, err := decodeBinary(v)
		if err != nil {
			h.refuse(codes.Internal, fmt.Sprintf("malformed binary metadata %q in header %q: %v", v, f.Name, err))
			return
		}
		v = string(b)
	}
	h.md[f.Name] = append(h.md[f.Name], v)
}

func (h *headerReader) pseudoField(f hpack.HeaderField) {
	at := -1
	switch f.Name {
	case ":method":
		at, h.verb = 0, f.Value
	case ":scheme":
		at = 1
	case ":path":
		at, h.req.path = 2, f.Value
		if f.Value == "" {
			h.bad("an empty :path")
		}
	case ":authority":
		at = 3
		h.md[f.Name] = []string{f.Value}
	}
	switch {
	case at < 0:
		h.bad("an unknown pseudo-header")
	case h.regular:
		h.bad("a pseudo-header after a header field")
	case h.pseudo[at]:
		h.bad("a pseudo-header twice")
	case !validValue(f.Value):
		h.bad("a pseudo-header with a value that HTTP/2 does not allow")
	default:
		h.pseudo[at] = true
	}
}

func (h *headerReader) bad(text string) {
	h.req.faulty = true
	if h.req.malformed == "" {
		h.req.malformed = text
	}
}

func (h *headerReader) refuse(c codes.Code, text string) {
	if h.req.refusal == nil {
		h.req.refusal = grpcstatus.New(c, text)
	}
}

// finish checks the request as a whole and finds its method.
func (h *headerReader) finish() {
	r := h.req
	r.pseudo = h.pseudo != [4]bool{}
	switch {
	case h.tooLarge:
		r.malformed = ""
		r.refusal = grpcstatus.Newf(codes.ResourceExhausted,
			"the call's headers are larger than %d bytes", h.c.srv.o.MaxHeaderBytes)
		return
	case r.malformed != "":
		return
	case !h.pseudo[0] || !h.pseudo[1] || !h.pseudo[2]:
		r.malformed = "a request without :method, :scheme or :path"
		return
	case h.verb != "POST":
		r.http = 405
		r.refusal = grpcstatus.New(codes.Internal, "gRPC calls are POST requests, not "+strconv.Quote(h.verb))
		return
	case !h.kindKnown || !grpcType(h.kind):
		r.http = 415
		r.refusal = grpcstatus.New(codes.InvalidArgument, fmt.Sprintf("invalid gRPC request content-type %q", h.kind))
		return
	}
	r.ctx = metadata.NewIncomingContext(h.c.ctx, h.md)
	if r.refusal != nil {
		return
	}
	if r.method = h.c.srv.methods[r.path]; r.method == nil {
		r.refusal = h.c.srv.unknown(r.path)
	} else if r.compression != "" && !canDecompress(r.compression) {
		r.refusal = grpcstatus.Newf(codes.Unimplemented,
			"grpc: Decompressor is not installed for grpc-encoding %q", r.compression)
	}
}

// grpcType reports whether a content type is gRPC's, with or without a subtype.
func grpcType(s string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(s), grpcContentType)
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// reserved reports whether a header name is the protocol's own, and not metadata.
func reserved(name string) bool {
	switch name {
	case "content-type", "user-agent", "te", "grpc-encoding", "grpc-message", "grpc-status", "grpc-timeout",
		"grpc-accept-encoding", "grpc-message-type", "grpc-status-details-bin":
		return true
	}
	return strings.HasPrefix(name, ":")
}

func isBinary(name string) bool { return strings.HasSuffix(name, "-bin") }

// decodeBinary decodes the value of a "-bin" field, with or without padding.
func decodeBinary(v string) ([]byte, error) {
	if len(v)%4 == 0 {
		return base64.StdEncoding.DecodeString(v)
	}
	return base64.RawStdEncoding.DecodeString(v)
}

// validName reports whether s is a lower-case token, as RFC 9113 section 8.2.1 demands.
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c == 0 || c == '\r' || c == '\n' {
			return false
		}
	}
	return true
}

// parseTimeout reads a grpc-timeout: at most 8 digits and a unit.
func parseTimeout(s string) (time.Duration, error) {
	if len(s) < 2 || len(s) > 9 {
		return 0, fmt.Errorf("%q has %d characters, not 2 to 9", s, len(s))
	}
	var unit time.Duration
	switch s[len(s)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, fmt.Errorf("%q does not end with a unit of H, M, S, m, u or n", s)
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number and a unit", s)
	}
	if n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64, nil
	}
	return max(time.Duration(n)*unit, 1), nil // 0 means none
}
