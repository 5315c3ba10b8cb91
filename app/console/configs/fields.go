package configs

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"nereid/app/console/api"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
)

// describeFields describes the configuration language, from its Protocol Buffers descriptor and the descriptions of
// package modelconfig.
func describeFields() *api.ConfigFields {
	d := fieldWalker{docs: map[string]modelconfig.FieldDoc{}, seen: map[string]bool{}}
	for _, f := range modelconfig.Describe() {
		d.docs[f.Path] = f
	}
	root := (*inferencepb.ModelConfig)(nil).ProtoReflect().Descriptor()
	d.out.Root = shortName(root)
	d.message(root, "")
	return &d.out
}

type fieldWalker struct {
	out  api.ConfigFields
	docs map[string]modelconfig.FieldDoc // by path in a file
	seen map[string]bool                 // messages and enums in out
}

// shortName returns a name without its package.
func shortName(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+".")
}

// message adds a message type, found at a path, and the types that it refers to.
func (d *fieldWalker) message(m protoreflect.MessageDescriptor, path string) {
	name := shortName(m)
	if d.seen[name] {
		return
	}
	d.seen[name] = true
	at := len(d.out.Messages)
	d.out.Messages = append(d.out.Messages, api.ConfigMessage{Name: name, Doc: d.docs[path].Doc})
	var fields []api.ConfigField
	for i := range m.Fields().Len() {
		fields = append(fields, d.field(m.Fields().Get(i), path))
	}
	d.out.Messages[at].Fields = fields
}

func (d *fieldWalker) field(fd protoreflect.FieldDescriptor, path string) api.ConfigField {
	name := string(fd.Name())
	if path != "" {
		path += "."
	}
	path += name
	doc := d.docs[path]
	f := api.ConfigField{Name: name, Kind: api.KindScalar, Repeated: fd.IsList() || fd.IsMap(), Oneof: doc.Oneof,
		Default: doc.Default, Doc: doc.Doc, Support: doc.Support}
	value := fd
	if fd.IsMap() {
		f.Kind, f.KeyType = api.KindMap, fd.MapKey().Kind().String()
		value = fd.MapValue()
		path += ".value"
	}
	switch {
	case value.Message() != nil:
		f.Type = shortName(value.Message())
		if !fd.IsMap() {
			f.Kind = api.KindMessage
		}
		d.message(value.Message(), path)
	case value.Enum() != nil:
		f.Type = shortName(value.Enum())
		if !fd.IsMap() {
			f.Kind = api.KindEnum
		}
		d.enum(value.Enum(), doc)
	default:
		f.Type = value.Kind().String()
	}
	return f
}

func (d *fieldWalker) enum(e protoreflect.EnumDescriptor, doc modelconfig.FieldDoc) {
	name := shortName(e)
	if d.seen[name] {
		return
	}
	d.seen[name] = true
	docs := map[string]string{}
	for _, v := range doc.Values {
		docs[v.Name] = v.Doc
	}
	out := api.ConfigEnum{Name: name, Doc: doc.Doc}
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		text, listed := docs[string(v.Name())]
		if listed { // other values are not for files
			out.Values = append(out.Values, api.ConfigEnumValue{Name: string(v.Name()), Number: int32(v.Number()),
				Doc: text})
		}
	}
	d.out.Enums = append(d.out.Enums, out)
}
