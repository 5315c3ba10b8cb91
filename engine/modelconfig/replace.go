package modelconfig

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"nereid/engine/inferencepb"
)

// Replace returns the text of a configuration with the given top-level fields replaced by those of cfg. Fields that
// cfg does not have are removed, and new ones are added at the end. All other text stays, also comments, except for
// those inside a replaced field. Replace returns an error if the text cannot be parsed, or if a name is no field.
func Replace(text string, cfg *inferencepb.ModelConfig, fields ...string) (string, error) {
	want, _, faults := Parse("config.pbtxt", []byte(text))
	if err := faults.Err(); err != nil {
		return "", err
	}
	m := cfg.ProtoReflect()
	values := make(map[string]string, len(fields))
	for _, name := range fields {
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			return "", fmt.Errorf("a model configuration has no field %q", name)
		}
		var w formatter
		w.field(m, fd, 0)
		values[name] = w.b.String()
		if m.Has(fd) {
			want.ProtoReflect().Set(fd, m.Get(fd))
		} else {
			want.ProtoReflect().Clear(fd)
		}
	}
	out := replaceSpans(text, values, fields)
	got, _, faults := Parse("config.pbtxt", []byte(out))
	if err := faults.Err(); err != nil {
		return "", fmt.Errorf("the changed configuration cannot be read: %w", err)
	}
	if !proto.Equal(got, want) {
		return "", fmt.Errorf("the fields %s cannot be replaced in this text; write each on its own line",
			strings.Join(fields, ", "))
	}
	return out, nil
}

// replaceSpans replaces the first occurrence of each field by its value and removes the others.
func replaceSpans(text string, values map[string]string, fields []string) string {
	var b strings.Builder
	at, done := 0, map[string]bool{}
	for _, s := range topLevel(text) {
		value, ok := values[s.name]
		if !ok {
			continue
		}
		if done[s.name] {
			value = ""
		}
		done[s.name] = true
		b.WriteString(text[at:s.from])
		at = s.to
		if value == "" { // remove its line too, if nothing else is on it
			line := strings.TrimRight(b.String(), " \t")
			rest := strings.TrimLeft(text[at:], " \t")
			if (line == "" || strings.HasSuffix(line, "\n")) && strings.HasPrefix(rest, "\n") {
				b.Reset()
				b.WriteString(line)
				at = len(text) - len(rest) + 1
			}
			continue
		}
		b.WriteString(strings.TrimSuffix(value, "\n"))
	}
	b.WriteString(text[at:])
	for _, name := range fields {
		if values[name] == "" || done[name] {
			continue
		}
		done[name] = true
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(values[name])
	}
	return b.String()
}

// span is the place of a top-level field in the text, from its name to the end of its value.
type span struct {
	name     string
	from, to int
}

// topLevel finds the top-level fields of a text that Parse accepts.
func topLevel(text string) (out []span) {
	l := newLexer(text)
	t := l.next()
	for t.kind != tokEOF {
		if t.kind != tokIdent {
			t = l.next() // a separator
			continue
		}
		s := span{name: t.text, from: l.off - len(t.text)}
		t = l.next()
		if t.is(':') {
			t = l.next()
		}
		if t.is('-') {
			t = l.next()
		}
		s.to = l.off
		if t.isOpen() {
			for depth := 1; depth > 0 && t.kind != tokEOF; {
				t = l.next()
				switch {
				case t.isOpen():
					depth++
				case t.isClose():
					depth--
				}
			}
			s.to = l.off
		}
		text := t.kind == tokString
		for t = l.next(); text && t.kind == tokString; t = l.next() { // strings side by side are one
			s.to = l.off
		}
		if t.isSeparator() {
			s.to = l.off
		}
		out = append(out, s)
	}
	return out
}
