package modelconfig

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"nereid/engine/inferencepb"
)

// formatOrder is the usual order of the top-level fields. The others follow in the order of the .proto file.
var formatOrder = []protoreflect.Name{
	"name", "platform", "backend", "runtime", "default_model_filename", "max_batch_size", "input", "output",
	"batch_input", "batch_output", "version_policy", "instance_group", "dynamic_batching", "sequence_batching",
	"ensemble_scheduling",
}

// Format writes a configuration as config.pbtxt text, indented by two spaces and in the usual order of fields. Fields
// with their protobuf default are left out. Parse reads it back to an equal configuration. Comments are not part of a
// configuration, and so not of the text.
func Format(cfg *inferencepb.ModelConfig) string {
	var w formatter
	m := cfg.ProtoReflect()
	fields := m.Descriptor().Fields()
	for _, name := range formatOrder {
		w.field(m, fields.ByName(name), 0)
	}
	for i := range fields.Len() {
		if fd := fields.Get(i); !slices.Contains(formatOrder, fd.Name()) {
			w.field(m, fd, 0)
		}
	}
	return w.b.String()
}

type formatter struct{ b strings.Builder }

func (w *formatter) line(depth int, text string) {
	w.b.WriteString(strings.Repeat("  ", depth))
	w.b.WriteString(text)
	w.b.WriteByte('\n')
}

func (w *formatter) fields(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		w.field(m, fields.Get(i), depth)
	}
}

func (w *formatter) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, depth int) {
	if !m.Has(fd) {
		return
	}
	name, v := string(fd.Name()), m.Get(fd)
	switch {
	case fd.IsMap():
		w.entries(name, fd, v.Map(), depth)
	case fd.IsList() && fd.Message() != nil:
		w.messages(name, v.List(), depth)
	case fd.IsList():
		list := v.List()
		parts := make([]string, list.Len())
		for i := range parts {
			parts[i] = formatScalar(fd, list.Get(i))
		}
		w.line(depth, fmt.Sprintf("%s: [ %s ]", name, strings.Join(parts, ", ")))
	case fd.Message() != nil:
		w.message(name, v.Message(), depth)
	default:
		w.line(depth, name+": "+formatScalar(fd, v))
	}
}

func (w *formatter) message(name string, m protoreflect.Message, depth int) {
	if empty(m) {
		w.line(depth, name+" { }")
		return
	}
	w.line(depth, name+" {")
	w.fields(m, depth+1)
	w.line(depth, "}")
}

func (w *formatter) messages(name string, list protoreflect.List, depth int) {
	w.line(depth, name+" [")
	for i := range list.Len() {
		end := "}"
		if i < list.Len()-1 {
			end = "},"
		}
		if empty(list.Get(i).Message()) {
			w.line(depth+1, "{ "+end)
			continue
		}
		w.line(depth+1, "{")
		w.fields(list.Get(i).Message(), depth+2)
		w.line(depth+1, end)
	}
	w.line(depth, "]")
}

func (w *formatter) entries(name string, fd protoreflect.FieldDescriptor, m protoreflect.Map, depth int) {
	for _, k := range sortedKeys(m) {
		w.line(depth, name+" {")
		w.line(depth+1, "key: "+formatScalar(fd.MapKey(), k.Value()))
		if v := m.Get(k); fd.MapValue().Message() != nil {
			w.message("value", v.Message(), depth+1)
		} else {
			w.line(depth+1, "value: "+formatScalar(fd.MapValue(), v))
		}
		w.line(depth, "}")
	}
}

func empty(m protoreflect.Message) bool {
	for range m.Range {
		return false
	}
	return true
}

func formatScalar(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return quote(v.String())
	case protoreflect.EnumKind:
		if ev := fd.Enum().Values().ByNumber(v.Enum()); ev != nil {
			return string(ev.Name())
		}
		return strconv.Itoa(int(v.Enum()))
	case protoreflect.FloatKind:
		return formatFloat(v.Float(), 32)
	case protoreflect.DoubleKind:
		return formatFloat(v.Float(), 64)
	default:
		return fmt.Sprint(v.Interface())
	}
}

func formatFloat(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return string(appendFinite(nil, f, bits))
}

// quote writes a string literal of the text format. It escapes only what must be escaped.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\%03o`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
