package tensorjson

import (
	"errors"
	"strconv"
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

// Errors for a value of another kind than the one that is needed, with Triton's texts.
var (
	ErrNotString   = status.New(status.InvalidArg, "attempt to access JSON non-string as string")
	ErrNotBoolean  = status.New(status.InvalidArg, "attempt to access JSON non-boolean as boolean")
	ErrNotArray    = status.New(status.InvalidArg, "attempt to access JSON non-array as array")
	ErrNotObject   = status.New(status.InvalidArg, "attempt to access JSON non-object as object")
	ErrNoMembers   = status.New(status.InvalidArg, "attempt to get members for non-object")
	ErrNotSigned   = status.New(status.InvalidArg, "attempt to access JSON non-signed-integer as signed-integer")
	ErrNotUnsigned = status.New(status.InvalidArg, "attempt to access JSON non-unsigned-integer as unsigned-integer")
	ErrNotNumber   = status.New(status.InvalidArg, "attempt to access JSON non-number as double")
)

// Scanner reads one JSON document. It allocates only for strings with escapes and for errors.
//
// It stands on a value; the methods that read a value move behind it. If they return an error, where the scanner stands
// is not defined.
type Scanner struct {
	doc   []byte
	pos   int
	depth int
	// single: numbers only have to be right after they are rounded to a float32.
	single bool
}

// syntaxError is an error in the document's syntax.
type syntaxError struct{ error }

// Unwrap returns the coded error.
func (e syntaxError) Unwrap() error { return e.error }

func (s *Scanner) fail(text string, at int) error {
	return syntaxError{status.New(status.InvalidArg,
		"failed to parse the request JSON buffer: "+text+" at "+strconv.Itoa(at))}
}

// Read reads doc with read, which is called on the document's first value and must move behind it. A syntax error
// anywhere in doc is returned in preference to the error of read. The scanner forgets doc at the end.
func (s *Scanner) Read(doc []byte, read func() error) error {
	*s = Scanner{doc: doc}
	defer func() { *s = Scanner{} }()
	var err error
	if s.start(); s.Peek() == 0 {
		err = s.fail(errEmpty, s.pos)
	} else if err = read(); err == nil {
		err = s.end()
	}
	if err == nil {
		return nil
	}
	var syntax syntaxError
	if errors.As(err, &syntax) || errors.As(checkSyntax(doc), &syntax) {
		return syntax.error
	}
	return err
}

// ReadObject reads doc, which must be one object. member is called for each member and must read its value. The key is
// valid as long as doc is.
func ReadObject(doc []byte, member func(s *Scanner, key []byte) error) error {
	var s Scanner
	return s.Read(doc, func() error {
		return s.Object(func(key []byte) error { return member(&s, key) })
	})
}

// Blank reports whether a document holds no value.
func Blank(doc []byte) bool {
	s := Scanner{doc: doc}
	s.start()
	return s.Peek() == 0
}

// checkSyntax returns the first syntax error of a document.
func checkSyntax(doc []byte) error {
	s := Scanner{doc: doc}
	if s.start(); s.Peek() == 0 {
		return s.fail(errEmpty, s.pos)
	}
	if err := s.Skip(); err != nil {
		return err
	}
	return s.end()
}

// start moves to the first value of the document. Some programs put a byte order mark before it.
func (s *Scanner) start() {
	if hasPrefix(s.doc, "\xef\xbb\xbf") {
		s.pos = 3
	}
	s.space()
}

// end returns an error unless only white space is left. A NUL ends a document, as it does in Triton.
func (s *Scanner) end() error {
	if c := s.space(); c != 0 {
		return s.fail(errTrailing, s.pos)
	}
	return nil
}

// space moves to the next byte that is not white space and returns it, 0 at the end.
func (s *Scanner) space() byte {
	for s.pos < len(s.doc) {
		switch c := s.doc[s.pos]; c {
		case ' ', '\n', '\r', '\t':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// Peek returns the first byte of the value that the scanner stands on, 0 at the end. It shows the kind of the value:
// '{', '[', '"', 't' or 'f', 'n', otherwise a number or an error.
func (s *Scanner) Peek() byte {
	if s.pos < len(s.doc) {
		return s.doc[s.pos]
	}
	return 0
}

// Object reads an object. member is called for each member and must read its value. A key is a view of the document
// unless it has escapes. If the value is no object, the error is ErrNotObject.
func (s *Scanner) Object(member func(key []byte) error) error {
	if s.Peek() != '{' {
		return ErrNotObject
	}
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil || !more {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
	}
}

// Array reads an array. element is called for each element and must read it. If the value is no array, the error is
// ErrNotArray.
func (s *Scanner) Array(element func() error) error {
	if s.Peek() != '[' {
		return ErrNotArray
	}
	for first := true; ; first = false {
		more, err := s.element(first)
		if err != nil || !more {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

// member moves to the value of an object's next member and returns its name, or more = false behind the object's end.
// The first call stands on the opening brace.
func (s *Scanner) member(first bool) (name []byte, more bool, err error) {
	if more, err = s.next(first, '}', errObjectComma); !more || err != nil {
		return nil, false, err
	}
	if s.Peek() != '"' {
		return nil, false, s.fail(errMemberName, s.pos)
	}
	if name, err = s.Text(); err != nil {
		return nil, false, err
	}
	if s.space() != ':' {
		return nil, false, s.fail(errColon, s.pos)
	}
	s.pos++
	s.space()
	return name, true, nil
}

// element moves to an array's next element, or returns more = false behind the array's end. The first call stands on
// the opening bracket.
func (s *Scanner) element(first bool) (more bool, err error) {
	return s.next(first, ']', errArrayComma)
}

// next moves to the next part of an object or array that ends with closing; noComma is the error if none follows.
func (s *Scanner) next(first bool, closing byte, noComma string) (more bool, err error) {
	if first {
		if s.depth++; s.depth > maxDepth {
			return false, s.fail(errDepth, s.pos)
		}
		s.pos++
	}
	switch c := s.space(); {
	case c == closing:
		s.pos++
		s.depth--
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.pos++
		s.space()
		return true, nil
	}
	return false, s.fail(noComma, s.pos)
}

// Bool reads true or false. If the value is neither, the error is ErrNotBoolean.
func (s *Scanner) Bool() (bool, error) {
	switch rest := s.doc[s.pos:]; {
	case hasPrefix(rest, "true"):
		s.pos += 4
		return true, nil
	case hasPrefix(rest, "false"):
		s.pos += 5
		return false, nil
	}
	return false, ErrNotBoolean
}

// Skip reads a value of any kind and only checks its syntax.
func (s *Scanner) Skip() error {
	switch s.Peek() {
	case '{':
		return s.Object(func([]byte) error { return s.Skip() })
	case '[':
		return s.Array(s.Skip)
	case '"':
		return s.skipText()
	case 't', 'f':
		if _, err := s.Bool(); err != nil {
			return s.notValue()
		}
	case 'n':
		if !hasPrefix(s.doc[s.pos:], "null") {
			return s.notValue()
		}
		s.pos += 4
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

// notValue is the error for what begins no value. Its position is the first byte that no value could have.
func (s *Scanner) notValue() error {
	rest, n := s.doc[s.pos:], 0
	for _, word := range []string{"null", "true", "false", "NaN", "Infinity"} {
		i := 0
		for i < len(rest) && i < len(word) && rest[i] == word[i] {
			i++
		}
		n = max(n, i)
	}
	return s.fail(errValue, s.pos+n)
}

func hasPrefix(b []byte, p string) bool { return len(b) >= len(p) && string(b[:len(p)]) == p }

// view returns b as a string without a copy. It is valid as long as b's memory is, and b must not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// HasFirstKey reports whether the scanner stands on an object whose first member has this name. It does not move.
func (s *Scanner) HasFirstKey(name string) bool {
	look := *s
	if look.Peek() != '{' {
		return false
	}
	key, more, err := look.member(true)
	return err == nil && more && string(key) == name
}
