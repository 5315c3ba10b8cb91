package modelconfig

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar reads one scalar of the field's kind and notes its place at path.
func (p *parser) scalar(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	return p.scalarAt(fd, path, true)
}

// scalarAt is scalar; without place, faults name the path and nothing is noted.
func (p *parser) scalarAt(fd protoreflect.FieldDescriptor, path string, place bool) (protoreflect.Value, bool) {
	if place {
		p.place(path, p.tok.pos)
	}
	if p.tok.kind == tokBad {
		p.fault(p.tok.pos, path, "", "%s", p.tok.msg)
		p.skipBad()
		return protoreflect.Value{}, false
	}
	if p.tok.kind == tokEOF || p.tok.isClose() || p.tok.is(',') || p.tok.is(';') || (p.tok.kind == tokIdent && p.nextIsColon()) {
		p.fault(p.tok.pos, path, "write a value behind the ':'", "%s has no value, found %s", fd.Name(), p.tok.describe())
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
		p.fault(at.pos, path, fix, "%s is a string, found %s", fd.Name(), at.describe())
		p.skipValue()
		return protoreflect.Value{}, false
	}
	var b strings.Builder
	for p.tok.kind == tokString {
		b.WriteString(p.tok.str)
		p.advance()
	}
	s := b.String()
	if p.tok.kind == tokBad && strings.HasPrefix(p.tok.text, `"`) { // a continuation that is not closed
		p.fault(p.tok.pos, path, "", "%s", p.tok.msg)
		p.advance()
		return protoreflect.Value{}, false
	}
	if !utf8.ValidString(s) {
		p.fault(at.pos, path, "save the file as UTF-8", "%s is not valid UTF-8", fd.Name())
		return protoreflect.Value{}, false
	}
	return protoreflect.ValueOfString(s), true
}

func (p *parser) enumValue(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	at, d := p.tok, fd.Enum()
	text := at.text
	switch at.kind {
	case tokIdent:
		if v := d.Values().ByName(protoreflect.Name(text)); v != nil {
			p.advance()
			return protoreflect.ValueOfEnum(v.Number()), true
		}
	case tokInt:
		n, err := strconv.ParseInt(text, 0, 32)
		if v := d.Values().ByNumber(protoreflect.EnumNumber(n)); err == nil && v != nil {
			p.advance()
			return protoreflect.ValueOfEnum(v.Number()), true
		}
	case tokString:
		text = at.str
		if d.Values().ByName(protoreflect.Name(text)) != nil {
			p.fault(at.pos, path, "remove the quotes", "%s takes a name without quotes, found %s", fd.Name(), at.describe())
			p.skipValue()
			return protoreflect.Value{}, false
		}
	}
	fix := ""
	if s := suggestEnum(text, d); s != "" {
		fix = fmt.Sprintf("did you mean %s?", s)
	} else {
		fix = "use one of " + strings.Join(enumNames(d), ", ")
	}
	p.fault(at.pos, path, fix, "%s has no value %s", fd.Name(), at.describe())
	p.skipValue()
	return protoreflect.Value{}, false
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
		p.fault(at.pos, path, "write true or false", "%s is true or false, found %s", fd.Name(), at.describe())
		p.skipValue()
		return protoreflect.Value{}, false
	}
	p.advance()
	return protoreflect.ValueOfBool(b), true
}

// number takes an optional minus and what follows it. It returns the text with the minus.
func (p *parser) number() (text string, kind tokenKind) {
	sign := ""
	if p.tok.is('-') {
		sign = "-"
		p.advance()
	}
	text, kind = sign+p.tok.text, p.tok.kind
	return text, kind
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
		p.fault(at.pos, path, fix, "%s is a whole number, found %s", fd.Name(), what)
		p.skipValue()
		return protoreflect.Value{}, false
	}
	p.advance()
	if v, ok := parseInt(fd.Kind(), text); ok {
		return v, true
	}
	low, high := intRange(fd.Kind())
	p.fault(at.pos, path, fmt.Sprintf("use a number from %s to %s", low, high), "%s is out of range for %s: %s",
		clip(text), fd.Kind(), fd.Name())
	return protoreflect.Value{}, false
}

func parseInt(kind protoreflect.Kind, text string) (protoreflect.Value, bool) {
	switch kind {
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(text, 0, 32)
		return protoreflect.ValueOfInt32(int32(n)), err == nil
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(text, 0, 64)
		return protoreflect.ValueOfInt64(n), err == nil
	case protoreflect.Uint32Kind:
		n, err := strconv.ParseUint(text, 0, 32)
		return protoreflect.ValueOfUint32(uint32(n)), err == nil
	case protoreflect.Uint64Kind:
		n, err := strconv.ParseUint(text, 0, 64)
		return protoreflect.ValueOfUint64(n), err == nil
	}
	return protoreflect.Value{}, false
}

func intRange(kind protoreflect.Kind) (low, high string) {
	switch kind {
	case protoreflect.Int32Kind:
		return "-2147483648", "2147483647"
	case protoreflect.Int64Kind:
		return "-9223372036854775808", "9223372036854775807"
	case protoreflect.Uint32Kind:
		return "0", "4294967295"
	default:
		return "0", "18446744073709551615"
	}
}

func (p *parser) floatValue(fd protoreflect.FieldDescriptor, path string) (protoreflect.Value, bool) {
	at := p.tok
	text, kind := p.number()
	f, ok := parseFloat(text, kind)
	if !ok {
		p.fault(at.pos, path, "write a number such as 0.5", "%s is a number, found %s", fd.Name(), p.tok.describe())
		p.skipValue()
		return protoreflect.Value{}, false
	}
	p.advance()
	if fd.Kind() == protoreflect.FloatKind {
		return protoreflect.ValueOfFloat32(float32(f)), true
	}
	return protoreflect.ValueOfFloat64(f), true
}

// parseFloat reads a number, inf, infinity or nan. Numbers too large are infinite, as in protobuf.
func parseFloat(text string, kind tokenKind) (float64, bool) {
	minus := strings.HasPrefix(text, "-")
	abs := strings.TrimPrefix(text, "-")
	var f float64
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
			return 0, false // octal and hexadecimal are for integers
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
