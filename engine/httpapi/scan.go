package httpapi

import (
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"nereid/engine/status"
)

// maxDepth is how deeply JSON may nest.
const maxDepth = 100

// Texts of syntax errors, as Triton's clients know them.
const (
	errEmpty        = "The document is empty."
	errTrailing     = "The document root must not be followed by other values."
	errValue        = "Invalid value."
	errMemberName   = "Missing a name for object member."
	errColon        = "Missing a colon after a name of object member."
	errObjectComma  = "Missing a comma or '}' after an object member."
	errArrayComma   = "Missing a comma or ']' after an array element."
	errHex          = "Incorrect hex digit after \\u escape in string."
	errSurrogate    = "The surrogate pair in string is invalid."
	errEscape       = "Invalid escape character in string."
	errQuote        = "Missing a closing quotation mark in string."
	errFraction     = "Miss fraction part in number."
	errExponent     = "Miss exponent in number."
	errNumberTooBig = "Number too big to be stored in double."
	errDepth        = "Nesting deeper than 100 levels."
)

// scanner reads one JSON document. It allocates only for strings with escapes and for errors.
type scanner struct {
	b     []byte
	i     int
	depth int
	// single: numbers only have to be right once they are rounded to a float32.
	single bool
}

// syntaxError is a fault of the document's form. It wins over faults of its meaning, wherever they stand.
type syntaxError struct{ error }

func (e syntaxError) Unwrap() error { return e.error }

func (s *scanner) fail(text string, at int) error {
	return syntaxError{status.New(status.InvalidArg,
		"failed to parse the request JSON buffer: "+text+" at "+strconv.Itoa(at))}
}

// space moves to the next byte that is not white space and returns it, 0 at the end.
func (s *scanner) space() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\r', '\t':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// byteOrderMark passes over the mark that some programs put before a document.
func (s *scanner) byteOrderMark() {
	if hasPrefix(s.b, "\xef\xbb\xbf") {
		s.i = 3
	}
}

// end returns an error unless only white space is left. A NUL ends a document, as it does in Triton.
func (s *scanner) end() error {
	if c := s.space(); c != 0 {
		return s.fail(errTrailing, s.i)
	}
	return nil
}

func (s *scanner) enter() error {
	s.depth++
	if s.depth > maxDepth {
		return s.fail(errDepth, s.i)
	}
	s.i++
	return nil
}

// member moves to the value of an object's next member and returns its name, or more = false after the object's end.
// The first call stands on the opening brace. The name is a view of the document if it has no escapes.
func (s *scanner) member(first bool) (name []byte, more bool, err error) {
	if first {
		if err := s.enter(); err != nil {
			return nil, false, err
		}
		if s.space() == '}' {
			s.i++
			s.depth--
			return nil, false, nil
		}
	} else {
		switch s.space() {
		case '}':
			s.i++
			s.depth--
			return nil, false, nil
		case ',':
			s.i++
		default:
			return nil, false, s.fail(errObjectComma, s.i)
		}
	}
	if s.space() != '"' {
		return nil, false, s.fail(errMemberName, s.i)
	}
	if name, err = s.text(); err != nil {
		return nil, false, err
	}
	if s.space() != ':' {
		return nil, false, s.fail(errColon, s.i)
	}
	s.i++
	s.space()
	return name, true, nil
}

// element moves to an array's next element, or returns more = false after the array's end.
// The first call stands on the opening bracket.
func (s *scanner) element(first bool) (more bool, err error) {
	if first {
		if err := s.enter(); err != nil {
			return false, err
		}
		if s.space() == ']' {
			s.i++
			s.depth--
			return false, nil
		}
		return true, nil
	}
	switch s.space() {
	case ']':
		s.i++
		s.depth--
		return false, nil
	case ',':
		s.i++
		s.space()
		return true, nil
	}
	return false, s.fail(errArrayComma, s.i)
}

// peek returns the byte that the scanner stands on, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// text reads a string and returns its content: a view of the document, or a copy if it has escapes.
func (s *scanner) text() ([]byte, error) {
	at := s.i + 1
	i := at
	for i < len(s.b) {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return s.b[at:i:i], nil
		case c == '\\':
			return s.appendText(nil)
		case c < ' ':
			return nil, s.controlError(i)
		}
		i++
	}
	return nil, s.fail(errQuote, i)
}

func (s *scanner) controlError(i int) error {
	if s.b[i] == 0 {
		return s.fail(errQuote, i)
	}
	return s.fail(errEscape, i)
}

// appendText reads a string and appends its content to dst.
func (s *scanner) appendText(dst []byte) ([]byte, error) {
	i := s.i + 1
	for {
		run := i
		for i < len(s.b) && s.b[i] != '"' && s.b[i] != '\\' && s.b[i] >= ' ' {
			i++
		}
		dst = append(dst, s.b[run:i]...)
		if i >= len(s.b) {
			return dst, s.fail(errQuote, i)
		}
		switch s.b[i] {
		case '"':
			s.i = i + 1
			return dst, nil
		case '\\':
			var err error
			if dst, i, err = s.appendEscape(dst, i); err != nil {
				return dst, err
			}
		default:
			return dst, s.controlError(i)
		}
	}
}

// appendEscape decodes the escape at i and returns where it ends.
func (s *scanner) appendEscape(dst []byte, i int) ([]byte, int, error) {
	if i+1 >= len(s.b) {
		return dst, i, s.fail(errEscape, i)
	}
	switch c := s.b[i+1]; c {
	case '"', '\\', '/':
		return append(dst, c), i + 2, nil
	case 'b':
		return append(dst, '\b'), i + 2, nil
	case 'f':
		return append(dst, '\f'), i + 2, nil
	case 'n':
		return append(dst, '\n'), i + 2, nil
	case 'r':
		return append(dst, '\r'), i + 2, nil
	case 't':
		return append(dst, '\t'), i + 2, nil
	case 'u':
	default:
		return dst, i, s.fail(errEscape, i)
	}
	r, ok := hex4(s.b, i+2)
	if !ok {
		return dst, i, s.fail(errHex, i)
	}
	end := i + 6
	if r >= 0xD800 && r <= 0xDFFF {
		low, ok := rune(0), false
		if end+1 < len(s.b) && s.b[end] == '\\' && s.b[end+1] == 'u' {
			low, ok = hex4(s.b, end+2)
		}
		if !ok || r >= 0xDC00 || low < 0xDC00 || low > 0xDFFF {
			return dst, i, s.fail(errSurrogate, i)
		}
		r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
		end += 6
	}
	return utf8.AppendRune(dst, r), end, nil
}

func hex4(b []byte, i int) (rune, bool) {
	if i+4 > len(b) {
		return 0, false
	}
	r := rune(0)
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number is what a JSON number can be.
type number struct {
	kind numberKind
	// mag is the magnitude of an integer.
	mag uint64
	neg bool
	// f is the value of a number that is not an integer, or whose magnitude passes 2^64.
	f float64
}

type numberKind uint8

const (
	notNumber numberKind = iota
	integer
	real
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

var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// number reads a number, NaN or an infinity. It returns notNumber and stays where it is if there is none.
func (s *scanner) number() (number, error) {
	b, at, i := s.b, s.i, s.i
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
	s.i = i
	if i < len(b) && (b[i] == '.' || b[i]|0x20 == 'e') {
		return s.real(at, n, digits)
	}
	if !exact {
		return s.slowReal(at)
	}
	n.kind = integer
	return n, nil
}

// real reads what follows the integer part of a number that began at at; n has the sign and that part, digits of it
// significant.
func (s *scanner) real(at int, n number, digits int) (number, error) {
	b, i, exp := s.b, s.i, 0
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
	s.i = i
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
	// Now mag holds all digits. One operation on two exact doubles rounds correctly; mag may be over 2^53 where only
	// the nearest float32 is wanted and two roundings cannot miss it.
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

// exponent reads the exponent that it stands on the e of. Beyond 100,000 it does not matter how large it is.
func (s *scanner) exponent() (int, error) {
	b, i := s.b, s.i+1
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
	s.i = i
	if minus {
		return -e, nil
	}
	return e, nil
}

func (s *scanner) slowReal(at int) (number, error) {
	f, err := strconv.ParseFloat(view(s.b[at:s.i]), 64)
	if err != nil && math.IsInf(f, 0) {
		return number{}, s.fail(errNumberTooBig, at)
	}
	return number{kind: real, f: f}, nil
}

// roundsSafely reports whether a double that is off by a few units in its last place still rounds to the same float32
// as the exact one: it is not near the middle of two of them, and neither is subnormal.
func roundsSafely(f float64) bool {
	const (
		tail   = 1<<29 - 1 // the bits of a double that a float32 lacks
		middle = 1 << 28
		margin = 16 // units in the last place; three roundings are off by 3 at most
	)
	d := int64(math.Float64bits(f)&tail) - middle
	return (d > margin || d < -margin) && f > 0x1p-125 && f < 0x1p127
}

// special reads NaN, Inf and Infinity at i, behind the sign.
func (s *scanner) special(neg bool, i int) (number, error) {
	f, length := math.NaN(), 0
	switch rest := s.b[i:]; {
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
	s.i = i + length
	return number{kind: real, f: f}, nil
}

// boolean reads true or false; ok is false, and the scanner stays, if there is neither.
func (s *scanner) boolean() (v, ok bool) {
	switch rest := s.b[s.i:]; {
	case hasPrefix(rest, "true"):
		s.i += 4
		return true, true
	case hasPrefix(rest, "false"):
		s.i += 5
		return false, true
	}
	return false, false
}

// skip passes over one value of any kind and checks its form.
func (s *scanner) skip() error {
	switch s.space() {
	case '{':
		for first := true; ; first = false {
			_, more, err := s.member(first)
			if err != nil || !more {
				return err
			}
			if err := s.skip(); err != nil {
				return err
			}
		}
	case '[':
		for first := true; ; first = false {
			more, err := s.element(first)
			if err != nil || !more {
				return err
			}
			if err := s.skip(); err != nil {
				return err
			}
		}
	case '"':
		return s.skipText()
	case 't', 'f':
		if _, ok := s.boolean(); !ok {
			return s.notValue()
		}
	case 'n':
		if !hasPrefix(s.b[s.i:], "null") {
			return s.notValue()
		}
		s.i += 4
	default:
		n, err := s.number()
		if err != nil {
			return err
		}
		if n.kind == notNumber {
			return s.notValue()
		}
	}
	return nil
}

// notValue is the fault of what is no value: it stands where that stops to be the beginning of one.
func (s *scanner) notValue() error {
	rest, n := s.b[s.i:], 0
	for _, word := range []string{"null", "true", "false", "NaN", "Infinity"} {
		i := 0
		for i < len(rest) && i < len(word) && rest[i] == word[i] {
			i++
		}
		n = max(n, i)
	}
	return s.fail(errValue, s.i+n)
}

func (s *scanner) skipText() error {
	i := s.i + 1
	for i < len(s.b) {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return nil
		case c == '\\':
			var (
				scratch [utf8.UTFMax]byte
				err     error
			)
			if _, i, err = s.appendEscape(scratch[:0], i); err != nil {
				return err
			}
			continue
		case c < ' ':
			return s.controlError(i)
		}
		i++
	}
	return s.fail(errQuote, i)
}

// checkSyntax returns the first fault in the form of a whole document.
func checkSyntax(doc []byte) error {
	s := scanner{b: doc}
	s.byteOrderMark()
	if s.space() == 0 {
		return s.fail(errEmpty, s.i)
	}
	if err := s.skip(); err != nil {
		return err
	}
	return s.end()
}

func hasPrefix(b []byte, p string) bool { return len(b) >= len(p) && string(b[:len(p)]) == p }

// view returns b as a string without a copy: it is valid as long as b's memory is, and b must not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
