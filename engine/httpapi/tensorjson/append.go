package tensorjson

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const hexDigits = "0123456789ABCDEF"

// AppendString appends s as a JSON string. Control characters, the quotation mark and the backslash are escaped. Other
// bytes are copied as they are, also if they are not UTF-8, as in Triton.
func AppendString[S string | []byte](b []byte, s S) []byte {
	b = append(b, '"')
	run := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[run:i]...)
		run = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, s[run:]...)
	return append(b, '"')
}

// AppendFloat appends f with Triton's digits, which read back as f: whole numbers with ".0", plain digits for
// 1e-6 <= |f| < 1e21, otherwise an exponent without plus sign ("1e21", "1.5e-7"); NaN, Infinity and -Infinity bare.
func AppendFloat(b []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 && (f != 0 || !math.Signbit(f)) {
		b = strconv.AppendInt(b, int64(f), 10)
		return append(b, '.', '0')
	}
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	case f == 0:
		return append(b, "-0.0"...)
	}
	if f < 0 {
		b = append(b, '-')
		f = -f
	}
	var digits [20]byte
	n, point := shortestDigits(digits[:], f)
	switch {
	case n <= point && point <= 21:
		b = append(b, digits[:n]...)
		for range point - n {
			b = append(b, '0')
		}
		return append(b, '.', '0')
	case 0 < point && point <= 21:
		b = append(b, digits[:point]...)
		b = append(b, '.')
		return append(b, digits[point:n]...)
	case -6 < point && point <= 0:
		b = append(b, '0', '.')
		for range -point {
			b = append(b, '0')
		}
		return append(b, digits[:n]...)
	}
	b = append(b, digits[0])
	if n > 1 {
		b = append(b, '.')
		b = append(b, digits[1:n]...)
	}
	b = append(b, 'e')
	return strconv.AppendInt(b, int64(point-1), 10)
}

// AppendArray appends a JSON array whose elements appendElement appends.
func AppendArray[T any](b []byte, list []T, appendElement func(b []byte, v T) []byte) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendElement(b, v)
	}
	return append(b, ']')
}

// AppendShape appends a shape: "[1,16]".
func AppendShape(b []byte, shape []int64) []byte { return AppendArray(b, shape, appendInt) }

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// JSON is a value that is JSON already.
type JSON []byte

// Object returns a JSON object of pairs, each a key and its value: a string, bool, int64, uint64, []string, []int64 or
// JSON. Other types are a fault of the program and panic. It is for replies of the server's administration.
func Object(pairs ...any) JSON {
	b := JSON{'{'}
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, pairs[i].(string)), ':')
		switch v := pairs[i+1].(type) {
		case string:
			b = AppendString(b, v)
		case bool:
			b = strconv.AppendBool(b, v)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case uint64:
			b = strconv.AppendUint(b, v, 10)
		case []string:
			b = AppendArray(b, v, AppendString[string])
		case []int64:
			b = AppendShape(b, v)
		case JSON:
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("tensorjson: %v has the type %T", pairs[i], v))
		}
	}
	return append(b, '}')
}

// Array returns a JSON array of what element returns for each member of the list.
func Array[T any](list []T, element func(v T) JSON) JSON {
	return AppendArray(nil, list, func(b []byte, v T) []byte { return append(b, element(v)...) })
}

// Error returns {"error":"…"}. The text may repeat what a client sent: bytes that are not UTF-8 are replaced.
func Error(text string) JSON { return Object("error", strings.ToValidUTF8(text, "\uFFFD")) }

// Printable returns the start of what a client sent, escaped for an error text.
func Printable[S string | []byte](s S) string {
	q := strconv.QuoteToASCII(string(s[:min(len(s), 64)]))
	return q[1 : len(q)-1]
}
