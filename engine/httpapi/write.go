package httpapi

import (
	"math"
	"strconv"
	"strings"
)

const hexDigits = "0123456789ABCDEF"

// appendString writes s as a JSON string. Control characters, the quote and the backslash are escaped; other bytes,
// also those that are not UTF-8, go through as they are, as in Triton.
func appendString[S string | []byte](b []byte, s S) []byte {
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

// appendDouble writes f in the shortest form that reads back as f: whole numbers with ".0", plain digits for
// 1e-6 <= |f| < 1e21, otherwise an exponent without plus sign ("1e21", "1.5e-7"); NaN, Infinity and -Infinity bare.
func appendDouble(b []byte, f float64) []byte {
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

// appendShape writes "[1,16]".
func appendShape(b []byte, shape []int64) []byte {
	b = append(b, '[')
	for i, d := range shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, d, 10)
	}
	return append(b, ']')
}

// appendError writes {"error":"…"}. Texts may repeat what a client sent; what is not UTF-8 is replaced.
func appendError(b []byte, text string) []byte {
	text = strings.ToValidUTF8(text, "\uFFFD")
	b = append(b, `{"error":`...)
	b = appendString(b, text)
	return append(b, '}')
}
