package modelconfig

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokIdent            // letters, digits, underscores
	tokInt              // decimal, 0x hexadecimal or 0 octal
	tokFloat            // with a point, an exponent or an f
	tokString           // str holds the value, escapes resolved
	tokPunct            // one of : , ; { } < > [ ] - /
	tokBad              // invalid; msg says why
)

// token is one token of the text format. Text is the source text.
type token struct {
	kind      tokenKind
	text      string
	str       string // value of a tokString
	msg       string // of a tokBad
	pos       Pos
	startLine bool // first token on its line
}

func (t token) is(punct byte) bool { return t.kind == tokPunct && t.text[0] == punct }

// isOpen and isClose report brackets.
func (t token) isOpen() bool  { return t.is('{') || t.is('<') || t.is('[') }
func (t token) isClose() bool { return t.is('}') || t.is('>') || t.is(']') }

// isSeparator reports what may follow a field.
func (t token) isSeparator() bool { return t.is(',') || t.is(';') }

// describe names the token in a message.
func (t token) describe() string {
	switch t.kind {
	case tokEOF:
		return "the end of the file"
	case tokString:
		return "string " + clip(t.text)
	case tokInt, tokFloat:
		return "number " + clip(t.text)
	default:
		return "'" + clip(t.text) + "'"
	}
}

// clip shortens text for a message.
func clip(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

// lexer splits protobuf text format into tokens. A copy of it saves the position.
// Grammar: the text format specification of Protocol Buffers.
type lexer struct {
	src               string
	off               int
	line, col, colOff int // col is the column of offset colOff, which is at or before off on the same line
	startLine         bool
}

func newLexer(src string) lexer {
	l := lexer{src: src, line: 1, col: 1, startLine: true}
	if strings.HasPrefix(src, "\ufeff") { // a byte order mark, from editors on Windows
		l.off, l.colOff = 3, 3
	}
	return l
}

func (l *lexer) pos() Pos {
	l.col += utf8.RuneCountInString(l.src[l.colOff:l.off])
	l.colOff = l.off
	return Pos{l.line, l.col}
}

func (l *lexer) newline() {
	l.line++
	l.col, l.colOff = 1, l.off
	l.startLine = true
}

// next returns the next token. At the end, it always returns tokEOF.
func (l *lexer) next() token {
	l.skipSpace()
	t := token{pos: l.pos(), startLine: l.startLine}
	l.startLine = false
	if l.off >= len(l.src) {
		return t
	}
	start := l.off
	switch c := l.src[l.off]; {
	case isLetter(c):
		l.run(func(c byte) bool { return isLetter(c) || isDigit(c) })
		t.kind = tokIdent
	case isDigit(c) || c == '.':
		t.kind, t.msg = l.number()
	case c == '"' || c == '\'':
		t.kind, t.str, t.msg = l.quoted(c)
	default:
		t.kind, t.msg = l.punctuation()
	}
	t.text = l.src[start:l.off]
	return t
}

func (l *lexer) skipSpace() {
	for l.off < len(l.src) {
		switch l.src[l.off] {
		case '\n':
			l.off++
			l.newline()
		case ' ', '\t', '\r', '\v', '\f':
			l.off++
		case '#':
			l.run(func(c byte) bool { return c != '\n' })
		default:
			return
		}
	}
}

// punctuation reads a punctuation mark, or one invalid character.
func (l *lexer) punctuation() (tokenKind, string) {
	switch l.src[l.off] {
	case ':', ',', ';', '{', '}', '<', '>', '[', ']', '-', '/':
		l.off++
		return tokPunct, ""
	}
	r, n := utf8.DecodeRuneInString(l.src[l.off:])
	l.off += n
	if r == utf8.RuneError && n == 1 {
		return tokBad, "the file is not valid UTF-8 here"
	}
	if plain, ok := lookalikes[r]; ok {
		return tokBad, fmt.Sprintf("the character %q (U+%04X) only looks like %s; type the plain one", r, r, plain)
	}
	switch r {
	case '\u201c', '\u201d', '\u2018', '\u2019', '\uff02':
		return tokBad, fmt.Sprintf("the quotation mark %q is not a plain one; use \" around strings", r)
	}
	if unicode.IsPrint(r) {
		return tokBad, fmt.Sprintf("unexpected character %q", r)
	}
	return tokBad, fmt.Sprintf("unexpected character U+%04X", r)
}

// lookalikes are full-width marks that input methods produce.
var lookalikes = map[rune]string{
	'\uff1a': "':'", '\uff0c': "','", '\u3001': "','", '\uff1b': "';'", '\uff5b': "'{'", '\uff5d': "'}'",
	'\uff3b': "'['", '\uff3d': "']'", '\u3010': "'['", '\u3011': "']'", '\uff0d': "'-'", '\u2013': "'-'",
	'\u2014': "'-'", '\uff03': "'#'", '\u00a0': "a space", '\u3000': "a space",
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isOctal(c byte) bool  { return '0' <= c && c <= '7' }
func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// run skips the bytes that satisfy ok and returns their number.
func (l *lexer) run(ok func(byte) bool) int {
	start := l.off
	for l.off < len(l.src) && ok(l.src[l.off]) {
		l.off++
	}
	return l.off - start
}

// peekByte returns the byte n after the current one, 0 past the end.
func (l *lexer) peekByte(n int) byte {
	if l.off+n < len(l.src) {
		return l.src[l.off+n]
	}
	return 0
}

func (l *lexer) number() (tokenKind, string) {
	start, kind := l.off, tokInt
	fault := ""
	switch c, d := l.peekByte(0), l.peekByte(1); {
	case c == '0' && (d == 'x' || d == 'X'):
		l.off += 2
		if l.run(isHex) == 0 {
			fault = "has no digits after 0x"
		}
	case c == '0' && isDigit(d):
		l.run(isOctal)
		if isDigit(l.peekByte(0)) {
			fault = "starts with 0, so it is octal, and has a digit above 7"
		}
	default:
		kind, fault = l.decimal()
	}
	rest := l.run(func(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' || c == '-' || c == '+' })
	if fault == "" && rest > 0 {
		fault = "is followed by other characters without a space"
	}
	if fault == "" {
		return kind, ""
	}
	return tokBad, fmt.Sprintf("the number %s %s", clip(l.src[start:l.off]), fault)
}

// decimal reads digits with an optional fraction, exponent and f.
func (l *lexer) decimal() (tokenKind, string) {
	kind := tokInt
	digits := l.run(isDigit)
	if l.peekByte(0) == '.' {
		kind = tokFloat
		l.off++
		digits += l.run(isDigit)
	}
	if digits == 0 {
		return tokFloat, "has no digits"
	}
	if c := l.peekByte(0); c == 'e' || c == 'E' {
		kind = tokFloat
		l.off++
		if s := l.peekByte(0); s == '+' || s == '-' {
			l.off++
		}
		if l.run(isDigit) == 0 {
			return kind, "has no digits in its exponent"
		}
	}
	if c := l.peekByte(0); c == 'f' || c == 'F' {
		kind = tokFloat
		l.off++
	}
	return kind, ""
}

// quoted reads one string literal. A literal that is not closed ends at the end of its line.
func (l *lexer) quoted(quote byte) (kind tokenKind, value, fault string) {
	l.off++
	var out []byte
	for l.off < len(l.src) {
		problem := ""
		switch c := l.src[l.off]; c {
		case quote:
			l.off++
			if fault != "" {
				return tokBad, "", fault
			}
			return tokString, string(out), ""
		case '\n':
			return tokBad, "",
				"the string is not closed on its line; use \\n for a line break and repeat the quotes to go on"
		case 0:
			problem = "the string has a NUL byte; write \\0"
			l.off++
		case '\\':
			out, problem = l.escape(out)
		default:
			out = append(out, c)
			l.off++
		}
		fault = cmp.Or(fault, problem)
	}
	return tokBad, "", "the string is not closed"
}

var simpleEscapes = map[byte]byte{
	'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
	'\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// escape reads one escape sequence and appends its value. It returns a fault if the sequence is invalid.
func (l *lexer) escape(out []byte) ([]byte, string) {
	start := l.off
	c := l.peekByte(1)
	l.off += 2
	if l.off > len(l.src) {
		l.off = len(l.src)
		return out, "the string is not closed"
	}
	bad := func() ([]byte, string) {
		return out, fmt.Sprintf("unknown escape %s in a string; write \\\\ for a backslash", clip(l.src[start:l.off]))
	}
	if r, ok := simpleEscapes[c]; ok {
		return append(out, r), ""
	}
	switch {
	case isOctal(c):
		l.off--
		return l.numericEscape(out, 8, 3, isOctal)
	case c == 'x' || c == 'X':
		if !isHex(l.peekByte(0)) {
			return bad()
		}
		return l.numericEscape(out, 16, 2, isHex)
	case c == 'u' || c == 'U':
		r, ok := l.unicodeEscape(c)
		if !ok {
			return bad()
		}
		return utf8.AppendRune(out, r), ""
	case c == '\n':
		l.off-- // the caller reports the open string
	}
	return bad()
}

func (l *lexer) numericEscape(out []byte, base, most int, ok func(byte) bool) ([]byte, string) {
	start := l.off
	l.run(func(c byte) bool { return l.off-start < most && ok(c) })
	v, err := strconv.ParseUint(l.src[start:l.off], base, 8)
	if err != nil {
		return out, fmt.Sprintf("the escape \\%s is more than one byte", l.src[start:l.off])
	}
	return append(out, byte(v)), ""
}

// unicodeEscape reads what follows \u (four digits, or two such halves) or \U (eight digits).
func (l *lexer) unicodeEscape(c byte) (rune, bool) {
	digits := 4
	if c == 'U' {
		digits = 8
	}
	r, ok := l.hexDigits(digits)
	if !ok || r > unicode.MaxRune {
		return 0, false
	}
	if !utf16.IsSurrogate(r) {
		return r, true
	}
	if l.peekByte(0) != '\\' || l.peekByte(1) != 'u' {
		return 0, false
	}
	l.off += 2
	low, ok := l.hexDigits(4)
	r = utf16.DecodeRune(r, low)
	return r, ok && r != unicode.ReplacementChar
}

func (l *lexer) hexDigits(n int) (rune, bool) {
	if l.off+n > len(l.src) {
		return 0, false
	}
	v, err := strconv.ParseUint(l.src[l.off:l.off+n], 16, 32)
	if err != nil || v > unicode.MaxRune {
		return 0, false
	}
	l.off += n
	return rune(v), true
}
