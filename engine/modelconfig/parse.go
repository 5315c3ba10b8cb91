package modelconfig

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"nereid/engine/inferencepb"
)

// Limits of Parse. Real configurations are far below them.
const (
	MaxFileSize = 16 << 20 // bytes of a configuration file
	maxValues   = 200_000  // scalars and messages in it
	maxFaults   = 100      // reported for one file
)

// Parse reads a configuration in protobuf text format. It accepts what protobuf's own parsers accept, except for
// extensions, Any and field numbers. It returns all faults, in the order of the file: after a fault it continues
// behind the faulty value. The configuration holds what could be read and is never nil. Use it for loading only if
// faults.Err() is nil.
func Parse(file string, text []byte) (*inferencepb.ModelConfig, *Positions, Faults) {
	cfg := new(inferencepb.ModelConfig)
	p := &parser{pos: newPositions(file)}
	if len(text) > MaxFileSize {
		p.fault(Pos{1, 1}, "", "a smaller file is needed; was a model file copied over the configuration?",
			"the file has %d bytes, more than the limit of %d", len(text), MaxFileSize)
		return cfg, p.pos, p.faults
	}
	p.lex = newLexer(string(text))
	p.advance()
	p.message(cfg.ProtoReflect(), "")
	p.faults.sort()
	return cfg, p.pos, p.faults
}

type parser struct {
	lex    lexer
	tok    token // the current token
	pos    *Positions
	faults Faults
	values int
	full   bool // a limit was reached, and parsing stops
}

func (p *parser) advance() { p.tok = p.lex.next() }

// fault adds an error. Parsing stops after maxFaults.
func (p *parser) fault(at Pos, path, fix, format string, args ...any) {
	p.note(SeverityError, at, path, fix, format, args...)
}

func (p *parser) note(s Severity, at Pos, path, fix, format string, args ...any) {
	if p.full {
		return
	}
	p.faults = append(p.faults, Fault{File: p.pos.file, Line: at.Line, Col: at.Col, Path: path,
		Message: fmt.Sprintf(format, args...), Fix: fix, Severity: s})
	if len(p.faults) >= maxFaults {
		p.stop()
	}
}

func (p *parser) stop() {
	p.full = true
	p.lex.off = len(p.lex.src)
	p.tok = token{kind: tokEOF, pos: p.tok.pos}
}

// place records the position of a value and counts it. Parsing stops after maxValues.
func (p *parser) place(path string, at Pos) {
	p.pos.add(path, at)
	if p.values++; p.values > maxValues {
		p.fault(at, path, "", "the file has more than %d values", maxValues)
		p.stop()
	}
}

// message reads fields up to the end of the file into m.
func (p *parser) message(m protoreflect.Message, path string) {
	p.body(token{}, m.Descriptor(), path, p.messageFields(m, path))
}

// messageFields returns the function that reads one field's value into m.
func (p *parser) messageFields(m protoreflect.Message, path string) fieldReader {
	seen := make(map[protoreflect.Name]Pos)
	return func(name token, fd protoreflect.FieldDescriptor, colon bool) {
		fieldPath := joinPath(path, name.text)
		p.pos.add(fieldPath, name.pos)
		switch {
		case fd.IsMap():
			p.each(name, fieldPath, func(at Pos) { p.mapEntry(m.Mutable(fd).Map(), fd, fieldPath, at) })
		case fd.IsList():
			list := m.Mutable(fd).List()
			if fd.Message() == nil {
				p.needColon(colon, name)
			}
			p.each(name, fieldPath, func(at Pos) { p.element(list, fd, indexed(fieldPath, list.Len()), at) })
		case !p.first(seen, fd, name, fieldPath):
			p.skipValue()
		case p.tok.is('['):
			p.wrong(p.tok.pos, fieldPath, "remove the brackets", "%s takes one value, not a list", name.text)
		case fd.Message() != nil:
			p.place(fieldPath, name.pos)
			p.braced(m.Mutable(fd).Message(), fieldPath)
		default:
			p.needColon(colon, name)
			delete(p.pos.at, fieldPath) // replaced by the position of the value
			if v, ok := p.scalar(fd, fieldPath); ok {
				m.Set(fd, v)
			}
		}
	}
}

// element reads one element of a repeated field.
func (p *parser) element(list protoreflect.List, fd protoreflect.FieldDescriptor, path string, at Pos) {
	if fd.Message() != nil {
		p.place(path, at)
		p.braced(list.AppendMutable().Message(), path)
	} else if v, ok := p.scalar(fd, path); ok {
		list.Append(v)
	}
}

// first reports whether a singular field, or its oneof, is set for the first time. If not, it adds a fault.
func (p *parser) first(seen map[protoreflect.Name]Pos, fd protoreflect.FieldDescriptor, name token, path string) bool {
	const fix = "remove one of the two"
	if at, ok := seen[fd.Name()]; ok {
		p.fault(name.pos, path, fix, "%s is set a second time; the first is at %d:%d", name.text, at.Line, at.Col)
		return false
	}
	seen[fd.Name()] = name.pos
	oneof := fd.ContainingOneof()
	if oneof == nil {
		return true
	}
	for i := range oneof.Fields().Len() {
		other := oneof.Fields().Get(i).Name()
		if at, ok := seen[other]; ok && other != fd.Name() {
			p.fault(name.pos, path, fix, "%s excludes %s, which is set at %d:%d", name.text, other, at.Line, at.Col)
			return false
		}
	}
	return true
}

func (p *parser) needColon(colon bool, name token) {
	if !colon && p.tok.kind != tokEOF && !p.tok.isClose() {
		p.fault(p.tok.pos, name.text, "put ':' behind the field's name",
			"expected ':' after %s, found %s", name.text, p.tok.describe())
	}
}

// each calls read for the one value of a repeated field, or for each value of a list in brackets.
func (p *parser) each(name token, path string, read func(at Pos)) {
	if !p.tok.is('[') {
		read(name.pos)
		return
	}
	open := p.tok
	p.advance()
	if p.tok.is(']') {
		p.advance()
		return
	}
	for !p.full {
		before := p.lex.off
		read(p.tok.pos)
		switch {
		case p.tok.is(']'):
			p.advance()
			return
		case p.tok.is(','):
			p.advance()
			if p.tok.is(']') {
				p.fault(p.tok.pos, path, "remove the comma before it",
					"expected another value after ',', found ']'")
				p.advance()
				return
			}
		case p.tok.kind == tokEOF:
			p.fault(open.pos, path, "add the missing ']'", "the list opened here is not closed")
			return
		case p.tok.isClose() || (p.tok.startLine && p.tok.kind == tokIdent):
			p.fault(p.tok.pos, path, "close the list with ']'",
				"expected ',' or ']' in the list opened at %d:%d, found %s", open.pos.Line, open.pos.Col,
				p.tok.describe())
			return
		default:
			p.fault(p.tok.pos, path, "put ',' between the values of a list",
				"expected ',' or ']', found %s", p.tok.describe())
			if p.lex.off == before {
				p.advance()
			}
		}
	}
}

// braced reads { fields } or < fields > into m.
func (p *parser) braced(m protoreflect.Message, path string) {
	open, ok := p.openMessage(path)
	if ok {
		p.body(open, m.Descriptor(), path, p.messageFields(m, path))
	}
}

// openMessage takes the bracket that opens a message.
func (p *parser) openMessage(path string) (token, bool) {
	open := p.tok
	if open.is('{') || open.is('<') {
		p.advance()
		return open, true
	}
	p.wrong(open.pos, path, "write { … } around its fields", "expected '{', found %s", open.describe())
	return open, false
}

// fieldReader reads the value of a field whose name and colon are taken.
type fieldReader func(name token, fd protoreflect.FieldDescriptor, colon bool)

// body reads fields up to the bracket that closes open, or to the end of the file when open is no bracket.
func (p *parser) body(open token, d protoreflect.MessageDescriptor, path string, read fieldReader) {
	closing := map[string]byte{"{": '}', "<": '>', "": 0}[open.text]
	for {
		switch t := p.tok; {
		case t.kind == tokEOF:
			if closing != 0 {
				p.fault(open.pos, path, fmt.Sprintf("add the missing '%c'", closing),
					"the '%s' opened here is not closed", open.text)
			}
			return
		case t.isClose():
			if closing == 0 {
				p.fault(t.pos, path, "remove it, or add the bracket that opens it", "'%s' closes nothing", t.text)
				p.advance()
				continue
			}
			if t.text[0] != closing {
				p.fault(t.pos, path, fmt.Sprintf("write '%c'", closing),
					"'%s' does not close the '%s' at %d:%d", t.text, open.text, open.pos.Line, open.pos.Col)
			}
			p.advance()
			return
		case t.kind == tokIdent:
			p.field(d, path, read)
		default:
			p.stray(path)
		}
	}
}

// field reads "name: value" with the separator behind it.
func (p *parser) field(d protoreflect.MessageDescriptor, path string, read fieldReader) {
	name := p.tok
	p.advance()
	colon := p.tok.is(':')
	if p.tok.kind == tokBad && p.tok.text == "\uff1a" { // a full-width colon: report it and continue
		p.fault(p.tok.pos, path, "", "%s", p.tok.msg)
		colon = true
	}
	if colon {
		p.advance()
	}
	if fd := d.Fields().ByName(protoreflect.Name(name.text)); fd == nil {
		p.unknown(name, d, path)
		p.skipValue()
	} else {
		read(name, fd, colon)
	}
	if p.tok.isSeparator() {
		p.advance()
	}
}

// unknown adds a fault about a field that the message does not have.
func (p *parser) unknown(name token, d protoreflect.MessageDescriptor, path string) {
	root := (*inferencepb.ModelConfig)(nil).ProtoReflect().Descriptor()
	fix := ""
	if s := suggestField(name.text, d); s != "" {
		fix = fmt.Sprintf("did you mean %s?", s)
	} else if where := whereField(name.text, root); len(where) > 0 {
		fix = "it belongs into " + strings.Join(where, " or ")
	} else if path != "" && root.Fields().ByName(protoreflect.Name(name.text)) != nil {
		fix = "it belongs to the top level; is a '}' missing above?"
	}
	if path == "" {
		p.fault(name.pos, name.text, fix, "the model configuration has no field named %q", clip(name.text))
		return
	}
	p.fault(name.pos, joinPath(path, name.text), fix, "%s has no field named %q", indexless(path), clip(name.text))
}

// indexless drops the indices of a path: "input[0].dims[1]" is "input.dims".
func indexless(path string) string {
	var b strings.Builder
	for path != "" {
		i := strings.IndexByte(path, '[')
		if i < 0 {
			break
		}
		b.WriteString(path[:i])
		rest := path[i+1:]
		if strings.HasPrefix(rest, `"`) {
			rest = rest[strings.LastIndexByte(rest, '"'):]
		}
		path = rest[strings.IndexByte(rest, ']')+1:]
	}
	return b.String() + path
}

// stray adds a fault about a token that cannot begin a field, and skips to the next line that can.
func (p *parser) stray(path string) {
	t := p.tok
	switch {
	case t.kind == tokBad:
		p.fault(t.pos, path, "", "%s", t.msg)
	case t.is('['):
		p.fault(t.pos, path, "use the fields of the model configuration", "extensions and Any are not supported")
	case t.kind == tokInt:
		p.fault(t.pos, path, "write the field's name", "field numbers are not supported, found %s", t.describe())
	case t.isSeparator():
		p.fault(t.pos, path, "remove it", "'%s' stands alone", t.text)
		p.advance()
		return
	default:
		fix := map[string]string{
			"/": "comments begin with '#'",
			"{": "a configuration in JSON goes into the config parameter of a load request; " +
				"config.pbtxt has name: value without braces around it",
			"-": "this looks like YAML; write name: value, and lists as [ … ]",
		}[t.text]
		p.fault(t.pos, path, fix, "expected the name of a field, found %s", t.describe())
	}
	p.skipToLine()
}

// skipToLine skips to the next token that begins a line and can begin a field, or to the bracket that closes the
// current message. It skips at least one token.
func (p *parser) skipToLine() {
	depth := 0
	for {
		if p.tok.isOpen() {
			depth++
		}
		p.advance()
		if depth > 0 && p.tok.isClose() {
			depth--
			continue
		}
		if p.tok.kind == tokEOF || depth == 0 && (p.tok.isClose() || p.tok.startLine && p.tok.kind == tokIdent) {
			return
		}
	}
}

// skipValue skips one value: a list, a message or a scalar. It does not skip a token that begins no value.
func (p *parser) skipValue() {
	switch {
	case p.tok.isOpen():
		depth := 0
		for p.tok.kind != tokEOF {
			if p.tok.isOpen() {
				depth++
			} else if p.tok.isClose() {
				depth--
			}
			p.advance()
			if depth == 0 {
				return
			}
		}
	case p.tok.kind == tokString:
		for p.tok.kind == tokString {
			p.advance()
		}
	case p.tok.is('-'):
		p.advance()
		if p.tok.kind == tokInt || p.tok.kind == tokFloat || p.tok.kind == tokIdent {
			p.advance()
		}
	case p.tok.kind == tokIdent && p.tok.startLine:
		// a value was forgotten: this is the next field
	case p.tok.kind == tokIdent, p.tok.kind == tokInt, p.tok.kind == tokFloat, p.tok.kind == tokBad:
		p.advance()
	}
}

// skipBad skips a value that begins with an invalid character: to the end of the line, or to what can follow a value.
func (p *parser) skipBad() {
	for {
		p.advance()
		if p.tok.kind == tokEOF || p.tok.startLine || p.tok.isClose() || p.tok.isSeparator() {
			return
		}
	}
}

// mapEntry reads { key: k value: v } into m.
func (p *parser) mapEntry(m protoreflect.Map, fd protoreflect.FieldDescriptor, path string, at Pos) {
	open, ok := p.openMessage(path)
	if !ok {
		return
	}
	key, val := fd.MapKey(), fd.MapValue()
	k := key.Default().MapKey()
	v := m.NewValue()
	seen := make(map[protoreflect.Name]Pos)
	var haveKey bool
	var later *parser // at a value that precedes its key, and is read after it
	entry := func() string { return keyed(path, k.String()) }
	value := func(colon bool, name token) {
		if val.Message() != nil {
			p.braced(v.Message(), entry())
			return
		}
		p.needColon(colon, name)
		if s, ok := p.scalar(val, entry()); ok {
			v = s
		}
	}
	read := func(name token, f protoreflect.FieldDescriptor, colon bool) {
		switch {
		case !p.first(seen, f, name, joinPath(path, name.text)):
			p.skipValue()
		case f.Number() == key.Number():
			p.needColon(colon, name)
			where := p.tok.pos
			if s, ok := p.scalarValue(key, path); ok {
				k, haveKey = s.MapKey(), true
				p.place(entry(), at)
				p.place(entry()+".key", where)
			}
		case haveKey:
			value(colon, name)
		default:
			saved := *p
			later = &saved
			p.skipValue()
		}
	}
	p.body(open, fd.Message(), path, read)
	if !haveKey {
		p.place(entry(), at)
		if _, ok := seen["key"]; !ok {
			p.note(SeverityWarning, at, path, "add key: …", "the entry of %s has no key", indexless(path))
		}
	}
	if later != nil && !p.full {
		lex, tok := p.lex, p.tok
		p.lex, p.tok = later.lex, later.tok
		value(true, token{})
		if !p.full {
			p.lex, p.tok = lex, tok
		}
	}
	if m.Has(k) {
		p.note(SeverityWarning, at, path, "",
			"%s has the key %q twice; the last one counts", indexless(path), k.String())
	}
	m.Set(k, v)
}
