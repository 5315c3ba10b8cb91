package tensorjson

import (
	"strconv"
	"unicode/utf8"
)

// Text reads a string and returns its content: a view of the document, or a copy if it has escapes. If the value is no
// string, the error is ErrNotString.
func (s *Scanner) Text() ([]byte, error) {
	if s.Peek() != '"' {
		return nil, ErrNotString
	}
	at := s.pos + 1
	for i := at; i < len(s.doc); i++ {
		switch c := s.doc[i]; {
		case c == '"':
			s.pos = i + 1
			return s.doc[at:i:i], nil
		case c == '\\':
			return s.unescape()
		case c < ' ':
			return nil, s.controlError(i)
		}
	}
	return nil, s.fail(errQuote, len(s.doc))
}

// String reads a string and returns a copy of its content.
func (s *Scanner) String() (string, error) {
	text, err := s.Text()
	return string(text), err
}

func (s *Scanner) controlError(i int) error {
	if s.doc[i] == 0 {
		return s.fail(errQuote, i)
	}
	return s.fail(errEscape, i)
}

// unescape reads a string that has escapes.
func (s *Scanner) unescape() (text []byte, err error) {
	for i := s.pos + 1; ; {
		run := i
		for i < len(s.doc) && s.doc[i] != '"' && s.doc[i] != '\\' && s.doc[i] >= ' ' {
			i++
		}
		text = append(text, s.doc[run:i]...)
		if i >= len(s.doc) {
			return nil, s.fail(errQuote, i)
		}
		switch s.doc[i] {
		case '"':
			s.pos = i + 1
			return text, nil
		case '\\':
			if text, i, err = s.appendEscape(text, i); err != nil {
				return nil, err
			}
		default:
			return nil, s.controlError(i)
		}
	}
}

// skipText reads a string without a copy.
func (s *Scanner) skipText() error {
	for i := s.pos + 1; i < len(s.doc); i++ {
		switch c := s.doc[i]; {
		case c == '"':
			s.pos = i + 1
			return nil
		case c == '\\':
			var scratch [utf8.UTFMax]byte
			_, end, err := s.appendEscape(scratch[:0], i)
			if err != nil {
				return err
			}
			i = end - 1
		case c < ' ':
			return s.controlError(i)
		}
	}
	return s.fail(errQuote, len(s.doc))
}

// appendEscape decodes the escape at i and returns where it ends.
func (s *Scanner) appendEscape(dst []byte, i int) ([]byte, int, error) {
	if i+1 >= len(s.doc) {
		return dst, i, s.fail(errEscape, i)
	}
	switch c := s.doc[i+1]; c {
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
	r, ok := s.hex4(i + 2)
	if !ok {
		return dst, i, s.fail(errHex, i)
	}
	end := i + 6
	if r >= 0xD800 && r <= 0xDFFF {
		low, ok := rune(0), false
		if hasPrefix(s.doc[end:], `\u`) {
			low, ok = s.hex4(end + 2)
		}
		if !ok || r >= 0xDC00 || low < 0xDC00 || low > 0xDFFF {
			return dst, i, s.fail(errSurrogate, i)
		}
		r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
		end += 6
	}
	return utf8.AppendRune(dst, r), end, nil
}

// hex4 decodes four hexadecimal digits at i.
func (s *Scanner) hex4(i int) (rune, bool) {
	if i+4 > len(s.doc) {
		return 0, false
	}
	r, err := strconv.ParseUint(view(s.doc[i:i+4]), 16, 32)
	return rune(r), err == nil
}
