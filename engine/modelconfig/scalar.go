package modelconfig

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar reads one scalar of the field's kind and records its position under path.
func (p *parser) scalar(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	p.place(path, p.tok.pos)
	return p.scalarValue(fd, path)
}

// scalarValue is scalar without recording the position; path is for faults only.
func (p *parser) scalarValue(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	if p.tok.kind == tokBad {
		p.fault(p.tok.pos, path, "", "%s", p.tok.msg)
		p.skipBad()
		return protoreflect.Value{}, false
	}
	if p.tok.kind == tokEOF || p.tok.isClose() || p.tok.isSeparator() || p.tok.kind == tokIdent && p.nextIsColon() {
		p.fault(p.tok.pos, path, "write a value behind the ':'",
			"%s has no value, found %s", fd.Name(), p.tok.describe())
		return protoreflect.Value{}, false
	}
	switch fd.Kind() {
	case protoreflect.StringKind:
		return p.stringValue(fd, path)
	case protoreflect.EnumKind:
		return p.enumValue(fd, path)
	case protoreflect.BoolKind:
		return p.boolValue(fd, path)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return p.floatValue(fd, path)
	default:
		return p.intValue(fd, path)
	}
}

// wrong adds a fault about a value that begins at a position, and skips the rest of it.
func (p *parser) wrong(at Pos, path, fix, format string, args ...any) (protoreflect.Value, bool) {
	p.fault(at, path, fix, format, args...)
	p.skipValue()
	return protoreflect.Value{}, false
}

// nextIsColon looks one token ahead: a name before a colon is the next field, not a value.
func (p *parser) nextIsColon() bool {
	ahead := p.lex
	return ahead.next().is(':')
}

func (p *parser) stringValue(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	at := p.tok
	if at.kind != tokString {
		fix := "put \" around it"
		if at.isOpen() {
			fix = ""
		}
		return p.wrong(at.pos, path, fix, "%s is a string, found %s", fd.Name(), at.describe())
	}
	var b strings.Builder
	for p.tok.kind == tokString {
		b.WriteString(p.tok.str)
		p.advance()
	}
	s := b.String()
	if p.tok.kind == tokBad && strings.HasPrefix(p.tok.text, `"`) { // the next part of the string is not closed
		return p.wrong(p.tok.pos, path, "", "%s", p.tok.msg)
	}
	if !utf8.ValidString(s) {
		p.fault(at.pos, path, "save the file as UTF-8", "%s is not valid UTF-8", fd.Name())
		return protoreflect.Value{}, false
	}
	return protoreflect.ValueOfString(s), true
}

func (p *parser) enumValue(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	at, values := p.tok, fd.Enum().Values()
	text := at.text
	var v protoreflect.EnumValueDescriptor
	switch at.kind {
	case tokIdent:
		v = values.ByName(protoreflect.Name(text))
	case tokInt:
		if n, err := strconv.ParseInt(text, 0, 32); err == nil {
			v = values.ByNumber(protoreflect.EnumNumber(n))
		}
	case tokString:
		text = at.str
		if values.ByName(protoreflect.Name(text)) != nil {
			return p.wrong(at.pos, path, "remove the quotes",
				"%s takes a name without quotes, found %s", fd.Name(), at.describe())
		}
	}
	if v != nil {
		p.advance()
		return protoreflect.ValueOfEnum(v.Number()), true
	}
	fix := "use one of " + strings.Join(descriptorNames(values), ", ")
	if s := suggestEnum(text, fd.Enum()); s != "" {
		fix = fmt.Sprintf("did you mean %s?", s)
	}
	return p.wrong(at.pos, path, fix, "%s has no value %s", fd.Name(), at.describe())
}

func (p *parser) boolValue(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	at := p.tok
	var b, ok bool
	switch at.kind {
	case tokIdent:
		switch at.text {
		case "true", "True", "t":
			b, ok = true, true
		case "false", "False", "f":
			ok = true
		}
	case tokInt:
		n, err := strconv.ParseUint(at.text, 0, 64)
		b, ok = n == 1, err == nil && n <= 1
	}
	if !ok {
		return p.wrong(at.pos, path, "write true or false", "%s is true or false, found %s", fd.Name(), at.describe())
	}
	p.advance()
	return protoreflect.ValueOfBool(b), true
}

// number skips an optional minus. It returns the text of the token after it, with the minus, and its kind.
func (p *parser) number() (text string, kind tokenKind) {
	sign := ""
	if p.tok.is('-') {
		sign = "-"
		p.advance()
	}
	return sign + p.tok.text, p.tok.kind
}

func (p *parser) intValue(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	at := p.tok
	text, kind := p.number()
	if kind != tokInt {
		what := p.tok.describe()
		if kind == tokBad {
			what = p.tok.msg
		}
		fix := "write a whole number"
		if kind == tokString {
			fix = "remove the quotes"
		}
		return p.wrong(at.pos, path, fix, "%s is a whole number, found %s", fd.Name(), what)
	}
	p.advance()
	var v protoreflect.Value
	var n int64
	var u uint64
	var err error
	var low, high string
	switch fd.Kind() {
	case protoreflect.Int32Kind:
		n, err = strconv.ParseInt(text, 0, 32)
		v, low, high = protoreflect.ValueOfInt32(int32(n)), "-2147483648", "2147483647"
	case protoreflect.Int64Kind:
		n, err = strconv.ParseInt(text, 0, 64)
		v, low, high = protoreflect.ValueOfInt64(n), "-9223372036854775808", "9223372036854775807"
	case protoreflect.Uint32Kind:
		u, err = strconv.ParseUint(text, 0, 32)
		v, low, high = protoreflect.ValueOfUint32(uint32(u)), "0", "4294967295"
	default:
		u, err = strconv.ParseUint(text, 0, 64)
		v, low, high = protoreflect.ValueOfUint64(u), "0", "18446744073709551615"
	}
	if err != nil {
		p.fault(at.pos, path, fmt.Sprintf("use a number from %s to %s", low, high),
			"%s is out of range for %s: %s", clip(text), fd.Kind(), fd.Name())
		return protoreflect.Value{}, false
	}
	return v, true
}

func (p *parser) floatValue(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	at := p.tok
	f, ok := parseFloat(p.number())
	if !ok {
		return p.wrong(at.pos, path, "write a number such as 0.5",
			"%s is a number, found %s", fd.Name(), p.tok.describe())
	}
	p.advance()
	if fd.Kind() == protoreflect.FloatKind {
		return protoreflect.ValueOfFloat32(float32(f)), true
	}
	return protoreflect.ValueOfFloat64(f), true
}

// parseFloat reads a number, inf, infinity or nan. Numbers that are too large are infinite, as in protobuf.
func parseFloat(text string, kind tokenKind) (f float64, ok bool) {
	abs, minus := strings.CutPrefix(text, "-")
	switch kind {
	case tokIdent:
		switch strings.ToLower(abs) {
		case "inf", "infinity":
			f = math.Inf(1)
		case "nan":
			f = math.NaN()
		default:
			return 0, false
		}
	case tokInt, tokFloat:
		if len(abs) > 1 && abs[0] == '0' && kind == tokInt {
			return 0, false // octal and hexadecimal forms are for integers only
		}
		var err error
		f, err = strconv.ParseFloat(strings.TrimRight(abs, "fF"), 64)
		if err != nil && !math.IsInf(f, 0) {
			return 0, false
		}
	default:
		return 0, false
	}
	if minus {
		f = -f
	}
	return f, true
}
