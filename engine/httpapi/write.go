package httpapi

import (
	"math"
	"strconv"
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
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e15 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	return appendScientific(b, f)
}

// appendScientific writes large, small and long numbers.
func appendScientific(b []byte, f float64) []byte {
	var scratch [32]byte
	s := strconv.AppendFloat(scratch[:0], f, 'e', -1, 64) // "-d.ddde-dd"
	if s[0] == '-' {
		b = append(b, '-')
		s = s[1:]
	}
	at := len(s) - 1
	for s[at] != 'e' {
		at--
	}
	exp := 0
	for _, c := range s[at+2:] {
		exp = exp*10 + int(c-'0')
	}
	if s[at+1] == '-' {
		exp = -exp
	}
	if exp >= 0 && exp < 21 {
		b = append(b, s[0])
		if at > 2 {
			b = append(b, s[2:at]...)
		}
		// A double has at most 17 digits; from 1e17 on all of them are in front of the point.
		digits := max(at-1, 1)
		if digits > exp+1 {
			whole := len(b) - (digits - exp - 1)
			b = append(b, 0)
			copy(b[whole+1:], b[whole:])
			b[whole] = '.'
			return b
		}
		for range exp + 1 - digits {
			b = append(b, '0')
		}
		return append(b, '.', '0')
	}
	b = append(b, s[:at]...)
	b = append(b, 'e')
	return strconv.AppendInt(b, int64(exp), 10)
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

// appendError writes {"error":"…"}.
func appendError(b []byte, text string) []byte {
	b = append(b, `{"error":`...)
	b = appendString(b, text)
	return append(b, '}')
}
