package modelconfig

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"nereid/engine/inferencepb"
)

// FieldDoc describes one field of a configuration, for completion and help in an editor.
type FieldDoc struct {
	Path     string     `json:"path"`              // without indices: input.dims, parameters.value.string_value
	Type     string     `json:"type"`              // string, int64, DataType, ModelInput, map<string, ModelParameter>
	Message  bool       `json:"message"`           // takes { … }
	Repeated bool       `json:"repeated"`          // takes [ … ]; true for maps
	Oneof    string     `json:"oneof,omitempty"`   // only one of the fields with the same oneof and parent may be set
	Values   []ValueDoc `json:"values,omitempty"`  // of an enum, and true and false
	Default  string     `json:"default,omitempty"` // in words
	Doc      string     `json:"doc"`
	Support  string     `json:"support,omitempty"` // how this server differs from Triton
	Feature  string     `json:"feature,omitempty"` // with Support: the id in docs/features.csv
}

// ValueDoc describes one value that a field can have.
type ValueDoc struct {
	Name string `json:"name"`
	Doc  string `json:"doc,omitempty"`
}

// Describe lists every field of a configuration, parents before children, in the order of model_config.proto. The
// texts are the comments of that file.
func Describe() []FieldDoc {
	d := describer{docs: protoComments(inferencepb.ModelConfigProto())}
	d.message((*inferencepb.ModelConfig)(nil).ProtoReflect().Descriptor(), "")
	return d.list
}

type describer struct {
	docs map[string]string // by name without the package: ModelInput.dims
	list []FieldDoc
}

func (d *describer) doc(full protoreflect.FullName) string {
	return d.docs[strings.TrimPrefix(string(full), "inference.")]
}

func (d *describer) message(m protoreflect.MessageDescriptor, path string) {
	fields := m.Fields()
	for i := range fields.Len() {
		d.field(fields.Get(i), path)
	}
}

func (d *describer) field(fd protoreflect.FieldDescriptor, path string) {
	f := FieldDoc{Path: joinPath(path, string(fd.Name())), Type: typeName(fd), Message: fd.Message() != nil,
		Repeated: fd.IsList() || fd.IsMap(), Doc: d.doc(fd.FullName())}
	if before, after, ok := strings.Cut(f.Doc, "Default: "); ok {
		f.Doc, f.Default = strings.TrimSpace(before), strings.TrimSuffix(after, ".")
	}
	if u := unusedAt(f.Path); u != nil {
		f.Support, f.Feature = u.support(), u.feature
	}
	if o := fd.ContainingOneof(); o != nil {
		f.Oneof = string(o.Name())
	}
	switch {
	case fd.Kind() == protoreflect.EnumKind:
		values := fd.Enum().Values()
		parent := strings.TrimPrefix(string(fd.Enum().FullName()), "inference.")
		for i := range values.Len() {
			name := string(values.Get(i).Name())
			if name != "TYPE_INVALID" {
				f.Values = append(f.Values, ValueDoc{Name: name, Doc: d.docs[parent+"."+name]})
			}
		}
	case fd.Kind() == protoreflect.BoolKind:
		f.Values = []ValueDoc{{Name: "true"}, {Name: "false"}}
	}
	d.list = append(d.list, f)
	if fd.IsMap() {
		d.entry(fd, f.Path)
	} else if fd.Message() != nil {
		d.message(fd.Message(), f.Path)
	}
}

// entry describes the key and the value of a map, which the text format writes as fields.
func (d *describer) entry(fd protoreflect.FieldDescriptor, path string) {
	d.list = append(d.list, FieldDoc{Path: path + ".key", Type: typeName(fd.MapKey()), Doc: "Key of the entry."})
	v := fd.MapValue()
	doc := "Value of the entry."
	if v.Message() != nil {
		doc = d.doc(v.Message().FullName())
	}
	d.list = append(d.list, FieldDoc{Path: path + ".value", Type: typeName(v), Message: v.Message() != nil, Doc: doc})
	if v.Message() != nil {
		d.message(v.Message(), path+".value")
	}
}

func typeName(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return fmt.Sprintf("map<%s, %s>", typeName(fd.MapKey()), typeName(fd.MapValue()))
	case fd.Message() != nil:
		return string(fd.Message().Name())
	case fd.Enum() != nil:
		return string(fd.Enum().Name())
	}
	return fd.Kind().String()
}

// protoComments returns the comments of a .proto file by name, such as ModelInput.Format.FORMAT_NHWC. The file must
// have one declaration per line, with its comment on the lines above.
func protoComments(text string) map[string]string {
	docs := make(map[string]string)
	var scope, comment []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if c, ok := strings.CutPrefix(line, "//"); ok {
			comment = append(comment, strings.TrimSpace(c))
			continue
		}
		name := declared(line)
		if name != "" && len(comment) > 0 {
			full := slices.DeleteFunc(append(slices.Clone(scope), name), func(s string) bool { return s == "" })
			docs[strings.Join(full, ".")] = strings.Join(comment, " ")
		}
		comment = nil
		switch {
		case strings.HasSuffix(line, "{"):
			if strings.HasPrefix(line, "oneof ") {
				name = "" // its fields belong to the message
			}
			scope = append(scope, name)
		case line == "}" && len(scope) > 0:
			scope = scope[:len(scope)-1]
		}
	}
	return docs
}

// declared returns the name that a line declares, "" if none.
func declared(line string) string {
	words := strings.Fields(line)
	switch {
	case len(words) < 2:
		return ""
	case strings.HasSuffix(line, "{"):
		return words[1] // message X {, enum X {, oneof x {
	case strings.HasSuffix(line, ";") && len(words) >= 3 && words[len(words)-2] == "=":
		return words[len(words)-3] // type name = 1;
	}
	return ""
}
