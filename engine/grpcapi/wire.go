package grpcapi

import (
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/status"
)

// malformed is the error for bytes that are no message of the expected type. where names the field.
func malformed(where string) error {
	return status.Errorf(status.InvalidArg,
		"failed to parse the request: %s is not valid protobuf; send it as the inference.GRPCInferenceService definition says", where)
}

// notUTF8 is the error for a string field with other bytes.
func notUTF8(where string) error {
	return status.Errorf(status.InvalidArg,
		"failed to parse the request: %s is not valid UTF-8; use bytes_contents or raw_input_contents for bytes", where)
}

// consumeTag reads a field's number and wire type. n is negative if b does not start with a tag that protobuf allows.
func consumeTag(b []byte) (num protowire.Number, typ protowire.Type, n int) {
	if len(b) > 0 && b[0] < 0x80 { // fields 1 to 15, all that the hot messages have
		num, typ = protowire.Number(b[0]>>3), protowire.Type(b[0]&7)
		if num < protowire.MinValidNumber {
			return 0, 0, -1
		}
		return num, typ, 1
	}
	num, typ, n = protowire.ConsumeTag(b)
	if num > protowire.MaxValidNumber {
		return 0, 0, -1
	}
	return num, typ, n
}

// consumeBytes reads a length and the bytes that it covers. n is negative if b is too short.
func consumeBytes(b []byte) (v []byte, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		end := 1 + int(b[0])
		if end > len(b) {
			return nil, -1
		}
		return b[1:end:end], end
	}
	v, n = protowire.ConsumeBytes(b)
	return v[:len(v):len(v)], n
}

// view returns b as a string without a copy: it lives as long as b's memory.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// text returns b as a string without a copy, or an error that names the field if it is not UTF-8.
func text(b []byte, where string) (string, error) {
	if !utf8.Valid(b) {
		return "", notUTF8(where)
	}
	return view(b), nil
}
