package modelconfig

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"nereid/engine/inferencepb"
)

// ParseJSON reads a configuration in JSON, the format of the config parameter of a load request. Names are those of the
// .proto file or lowerCamelCase, and 64-bit integers are numbers or strings. It stops at the first fault.
func ParseJSON(file string, text []byte) (*inferencepb.ModelConfig, *Positions, Faults) {
	cfg, pos := new(inferencepb.ModelConfig), newPositions(file)
	if len(text) > MaxFileSize {
		return cfg, pos, Faults{{File: file, Message: "the configuration has " + strconv.Itoa(len(text)) +
			" bytes, more than the limit of " + strconv.Itoa(MaxFileSize)}}
	}
	err := protojson.Unmarshal(text, cfg)
	if err == nil {
		return cfg, pos, nil
	}
	if protojson.Unmarshal(withLists(text, cfg.ProtoReflect().Descriptor()), cfg) != nil {
		return cfg, pos, Faults{jsonFault(file, err)}
	}
	return cfg, pos, nil
}

// withLists makes lists of single values where a message has a list, as Triton's parser does. nil: text is no object.
func withLists(text []byte, d protoreflect.MessageDescriptor) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return nil
	}
	for name, value := range object {
		fd := d.Fields().ByTextName(name)
		if fd == nil {
			fd = d.Fields().ByJSONName(name)
		}
		if fd != nil && !fd.IsMap() && string(value) != "null" {
			object[name] = withList(value, fd)
		}
	}
	text, _ = json.Marshal(object) //nolint:errchkjson // its values are what json.Unmarshal has read
	return text
}

// withList is withLists for the value of a field.
func withList(value json.RawMessage, fd protoreflect.FieldDescriptor) json.RawMessage {
	elements := []json.RawMessage{value}
	if value[0] == '[' && (!fd.IsList() || json.Unmarshal(value, &elements) != nil) {
		return value
	}
	for i, e := range elements {
		if fd.Message() != nil && e[0] == '{' {
			elements[i] = withLists(e, fd.Message())
		}
	}
	if !fd.IsList() {
		return elements[0]
	}
	value, _ = json.Marshal(elements) //nolint:errchkjson // its values are what json.Unmarshal has read
	return value
}

// protojsonPosition finds "(line 1:5): " in errors of protojson, which may have no-break spaces.
var protojsonPosition = regexp.MustCompile(`\(line (\d+):(\d+)\): *`)

func jsonFault(file string, err error) Fault {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = strings.TrimPrefix(text, "proto: ")
	f := Fault{File: file}
	if m := protojsonPosition.FindStringSubmatch(text); m != nil {
		f.Line, _ = strconv.Atoi(m[1]) // digits, by the expression
		f.Col, _ = strconv.Atoi(m[2])
		text = strings.Replace(text, m[0], "", 1)
	}
	f.Message = "the configuration is not the JSON of a model configuration: " + text
	return f
}

// MarshalJSON writes a configuration in the format of Triton's /config. Fields have the order and the names of the
// .proto file. Scalars and repeated fields are always written, messages only if they are set. Enums are written by
// name, 64-bit integers as numbers, and map keys are sorted. Fields that are newer than Triton 2.51 are written only
// if they are set, so that responses are the same as of that version.
func MarshalJSON(cfg *inferencepb.ModelConfig) []byte {
	return appendMessage(make([]byte, 0, 2048), cfg.ProtoReflect())
}

func appendMessage(b []byte, m protoreflect.Message) []byte {
	b = append(b, '{')
	fields := m.Descriptor().Fields()
	first := true
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.HasPresence() && !m.Has(fd) || newField(fd) && !m.Has(fd) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendString(b, string(fd.Name())), ':')
		b = appendField(b, fd, m.Get(fd))
	}
	return append(b, '}')
}

// newField reports the fields that Triton 2.51 did not have.
func newField(fd protoreflect.FieldDescriptor) bool {
	switch fd.FullName() {
	case "inference.ModelEnsembling.max_inflight_requests",
		"inference.ModelSequenceBatching.State.use_growable_memory":
		return true
	}
	return false
}

func appendField(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch {
	case fd.IsMap():
		return appendMap(b, fd.MapValue(), v.Map())
	case fd.IsList():
		b = append(b, '[')
		list := v.List()
		for i := range list.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, fd, list.Get(i))
		}
		return append(b, ']')
	}
	return appendValue(b, fd, v)
}

func appendMap(b []byte, fd protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	b = append(b, '{')
	for i, k := range sortedKeys(m) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k.String()), ':')
		b = appendValue(b, fd, m.Get(k))
	}
	return append(b, '}')
}

// sortedKeys returns the keys of a map, integers by value, strings by bytes.
func sortedKeys(m protoreflect.Map) []protoreflect.MapKey {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	for k := range m.Range {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int {
		x, y := a.String(), b.String()
		if _, isString := a.Interface().(string); !isString && len(x) != len(y) {
			return len(x) - len(y) // the only integer keys are unsigned
		}
		return strings.Compare(x, y)
	})
	return keys
}

func appendValue(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	if fd.FullName() == "inference.ModelInstanceGroup.SecondaryDevice.device_id" {
		return append(strconv.AppendInt(append(b, '"'), v.Int(), 10), '"') // Triton makes other int64 fields numbers
	}
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return appendMessage(b, v.Message())
	case protoreflect.StringKind:
		return appendString(b, v.String())
	case protoreflect.EnumKind:
		if ev := fd.Enum().Values().ByNumber(v.Enum()); ev != nil {
			return appendString(b, string(ev.Name()))
		}
		return strconv.AppendInt(b, int64(v.Enum()), 10)
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool())
	case protoreflect.FloatKind:
		return appendFloat(b, v.Float(), 32)
	case protoreflect.DoubleKind:
		return appendFloat(b, v.Float(), 64)
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return strconv.AppendUint(b, v.Uint(), 10)
	default:
		return strconv.AppendInt(b, v.Int(), 10)
	}
}

// appendFloat writes the shortest number that parses to the same value. Infinities are strings, as in protobuf's JSON.
func appendFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...)
	}
	return appendFinite(b, f, bits)
}

// appendFinite writes a number without an exponent if it is short then, else as 1e-7 or 2.5e30.
func appendFinite(b []byte, f float64, bits int) []byte {
	if abs := math.Abs(f); f == 0 || 1e-6 <= abs && abs < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, bits)
	}
	mantissa, exp, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, bits), "e")
	n, _ := strconv.Atoi(exp) // what FormatFloat wrote
	return strconv.AppendInt(append(append(b, mantissa...), 'e'), int64(n), 10)
}

// appendString writes a JSON string as RapidJSON does: it escapes only what must be escaped.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			if i := bytes.IndexByte([]byte("\b\t\n\f\r"), byte(r)); i >= 0 {
				b = append(b, '\\', "btnfr"[i])
			} else {
				b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
			}
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
