package tensorjson

import (
	"math"
	"math/bits"
	"strconv"
)

// number is a JSON number.
type number struct {
	kind numberKind
	mag  uint64  // the magnitude of an integer
	neg  bool    // an integer's sign
	f    float64 // the value of a real
}

type numberKind uint8

const (
	notNumber numberKind = iota
	integer
	real // not an integer, or its magnitude is 2^64 or more
)

// signed returns the number as an int64; ok is false if it is no integer or out of range.
func (n number) signed() (v int64, ok bool) {
	switch {
	case n.kind != integer:
		return 0, false
	case n.neg:
		return -int64(n.mag), n.mag <= 1<<63
	}
	return int64(n.mag), n.mag <= math.MaxInt64
}

// unsigned returns the number as a uint64; ok is false if it is no integer or negative.
func (n number) unsigned() (v uint64, ok bool) {
	return n.mag, n.kind == integer && (!n.neg || n.mag == 0)
}

func (n number) float() float64 {
	switch {
	case n.kind == real:
		return n.f
	case n.neg:
		return -float64(n.mag)
	}
	return float64(n.mag)
}

// Unsigned reads an integer that is 0 or more. If the value is none, the error is ErrNotUnsigned.
func (s *Scanner) Unsigned() (uint64, error) {
	n, err := s.number()
	if err != nil {
		return 0, err
	}
	v, ok := n.unsigned()
	if !ok {
		return 0, ErrNotUnsigned
	}
	return v, nil
}

var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// number reads a number, NaN or an infinity. If there is none, it returns notNumber and does not move.
func (s *Scanner) number() (number, error) {
	b, at, i := s.doc, s.pos, s.pos
	var n number
	if i < len(b) && b[i] == '-' {
		n.neg = true
		i++
	}
	if i >= len(b) || b[i] < '0' || b[i] > '9' {
		return s.special(n.neg, i)
	}
	digits, exact := 0, true // significant digits read; mag holds them all
	if b[i] == '0' {
		i++
	} else {
		for i < len(b) && b[i]-'0' <= 9 {
			if digits++; digits <= 19 {
				n.mag = n.mag*10 + uint64(b[i]-'0')
			} else if exact {
				hi, lo := bits.Mul64(n.mag, 10)
				sum, carry := bits.Add64(lo, uint64(b[i]-'0'), 0)
				if exact = hi == 0 && carry == 0; exact {
					n.mag = sum
				}
			}
			i++
		}
	}
	s.pos = i
	if i < len(b) && (b[i] == '.' || b[i]|0x20 == 'e') {
		return s.real(at, n, digits)
	}
	if !exact {
		return s.slowReal(at)
	}
	n.kind = integer
	return n, nil
}

// real reads what follows the integer part of the number that begins at at. n holds the sign and the integer part,
// which has that many significant digits.
func (s *Scanner) real(at int, n number, digits int) (number, error) {
	b, i, exp := s.doc, s.pos, 0
	if b[i] == '.' {
		i++
		from := i
		for i < len(b) && b[i]-'0' <= 9 {
			if digits > 0 || b[i] != '0' {
				digits++
			}
			if digits <= 19 {
				n.mag = n.mag*10 + uint64(b[i]-'0')
			}
			i++
		}
		if i == from {
			return n, s.fail(errFraction, i)
		}
		exp = from - i
	}
	s.pos = i
	if i < len(b) && b[i]|0x20 == 'e' {
		e, err := s.exponent()
		if err != nil {
			return n, err
		}
		exp += e
	}
	if digits > 19 || exp < -22 || exp > 22 {
		return s.slowReal(at)
	}
	// Now mag holds all digits. One operation on two exact doubles rounds correctly. mag may be over 2^53 if only the
	// nearest float32 is needed and rounding twice cannot miss it.
	f := float64(n.mag)
	if exp < 0 {
		f /= pow10[-exp]
	} else {
		f *= pow10[exp]
	}
	if n.mag >= 1<<53 && !(s.single && roundsSafely(f)) {
		return s.slowReal(at)
	}
	if n.neg {
		f = -f
	}
	return number{kind: real, f: f}, nil
}

// exponent reads an exponent; the scanner stands on its e. Values beyond 100,000 are cut off: they make no difference.
func (s *Scanner) exponent() (int, error) {
	b, i := s.doc, s.pos+1
	minus := false
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		minus = b[i] == '-'
		i++
	}
	from, e := i, 0
	for i < len(b) && b[i]-'0' <= 9 {
		if e < 100000 {
			e = e*10 + int(b[i]-'0')
		}
		i++
	}
	if i == from {
		return 0, s.fail(errExponent, i)
	}
	s.pos = i
	if minus {
		return -e, nil
	}
	return e, nil
}

func (s *Scanner) slowReal(at int) (number, error) {
	f, err := strconv.ParseFloat(view(s.doc[at:s.pos]), 64)
	if err != nil && math.IsInf(f, 0) {
		return number{}, s.fail(errNumberTooBig, at)
	}
	return number{kind: real, f: f}, nil
}

// roundsSafely reports whether a double that is off by a few units in its last place still rounds to the same float32
// as the exact value: it is not close to the middle of two float32 values, and neither of them is subnormal.
func roundsSafely(f float64) bool {
	const (
		tail   = 1<<29 - 1 // the bits of a double that a float32 lacks
		middle = 1 << 28
		margin = 16 // units in the last place; three roundings are off by 3 at most
	)
	d := int64(math.Float64bits(f)&tail) - middle
	return (d > margin || d < -margin) && f > 0x1p-125 && f < 0x1p127
}

// special reads NaN, Inf or Infinity at i, behind the sign.
func (s *Scanner) special(neg bool, i int) (number, error) {
	f, length := math.NaN(), 0
	switch rest := s.doc[i:]; {
	case hasPrefix(rest, "NaN"):
		length = 3
	case hasPrefix(rest, "Infinity"):
		f, length = math.Inf(1), 8
	case hasPrefix(rest, "Inf"):
		f, length = math.Inf(1), 3
	default:
		if neg {
			return number{}, s.fail(errValue, i)
		}
		return number{}, nil
	}
	if neg {
		f = -f
	}
	s.pos = i + length
	return number{kind: real, f: f}, nil
}
