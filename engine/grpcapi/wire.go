package grpcapi

import (
	"slices"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/status"
)

// malformed is the error for bytes that are not a valid message. where names the message or field.
func malformed(where string) error {
	return status.Errorf(status.InvalidArg, "failed to parse the request: %s is not valid protobuf; "+
		"send it as the inference.GRPCInferenceService definition says", where)
}

// notUTF8 is the error for a string field that is not UTF-8.
func notUTF8(where string) error {
	return status.Errorf(status.InvalidArg,
		"failed to parse the request: %s is not valid UTF-8; use bytes_contents or raw_input_contents for bytes", where)
}

// fields iterates over the fields of an encoded message.
type fields struct {
	b    []byte // what is not read yet
	num  protowire.Number
	typ  protowire.Type
	data []byte // the content of a field of protowire.BytesType; shares b's memory
	bits uint64 // the value of a number
	bad  bool   // b is not a valid message
}

// next reads the next field. It returns false at the end of the message, and after setting bad.
func (f *fields) next() bool {
	if len(f.b) == 0 {
		return false
	}
	num, typ, n := protowire.ConsumeTag(f.b)
	if n < 0 || num > protowire.MaxValidNumber {
		f.bad = true
		return false
	}
	f.num, f.typ, f.b = num, typ, f.b[n:]
	switch typ {
	case protowire.BytesType:
		f.data, n = protowire.ConsumeBytes(f.b)
		f.data = slices.Clip(f.data) // the memory behind it is the next field's
	case protowire.VarintType:
		f.bits, n = protowire.ConsumeVarint(f.b)
	case protowire.Fixed64Type:
		f.bits, n = protowire.ConsumeFixed64(f.b)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(f.b)
		f.bits = uint64(v)
	default:
		n = protowire.ConsumeFieldValue(num, typ, f.b)
	}
	if n < 0 {
		f.bad = true
		return false
	}
	f.b = f.b[n:]
	return true
}

// bytes reports whether the current field is number num with a length and content.
func (f *fields) bytes(num protowire.Number) bool {
	return f.num == num && f.typ == protowire.BytesType
}

// consumeVarint reads a number from b, which is not empty. n is negative if b does not start with one.
func consumeVarint(b []byte) (v uint64, n int) {
	if b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}

// view returns b as a string that shares its memory.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// text returns b as a string that shares its memory, or an error with the field's name if it is not UTF-8.
func text(b []byte, where string) (string, error) {
	if !utf8.Valid(b) {
		return "", notUTF8(where)
	}
	return view(b), nil
}
