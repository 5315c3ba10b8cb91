package inferencepb_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"nereid/engine/inferencepb"
)

// TestDescriptorsMatchTheWheel compares our descriptors with those in the tritonclient wheel. Each fact that only one
// side has is an error.
func TestDescriptorsMatchTheWheel(t *testing.T) {
	wheel := wheelDescriptors(t)
	ours := []protoreflect.FileDescriptor{
		inferencepb.File_model_config_proto, inferencepb.File_grpc_service_proto,
	}
	if len(wheel.GetFile()) != len(ours) {
		t.Fatalf("the wheel carries %d files, want %d", len(wheel.GetFile()), len(ours))
	}
	for i, fd := range ours {
		want := facts(wheel.GetFile()[i])
		got := facts(protodesc.ToFileDescriptorProto(fd))
		if len(want) < 50 {
			t.Fatalf("%s: only %d facts read from the wheel; the dump is broken", fd.Path(), len(want))
		}
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s: missing in ours: %s", fd.Path(), line)
			}
		}
		for _, line := range got {
			if !slices.Contains(want, line) {
				t.Errorf("%s: not in the wheel: %s", fd.Path(), line)
			}
		}
	}
}

// TestFactsNoticeEveryDifference tests the comparison: each change of a descriptor must change its facts.
func TestFactsNoticeEveryDifference(t *testing.T) {
	base := protodesc.ToFileDescriptorProto(inferencepb.File_grpc_service_proto)
	before := strings.Join(facts(base), "\n")
	for _, tt := range []struct {
		name   string
		change func(f *descriptorpb.FileDescriptorProto)
	}{
		{"field number",
			func(f *descriptorpb.FileDescriptorProto) { f.MessageType[4].Field[0].Number = proto.Int32(9) }},
		{"field name",
			func(f *descriptorpb.FileDescriptorProto) { f.MessageType[4].Field[0].Name = proto.String("x") }},
		{"json name",
			func(f *descriptorpb.FileDescriptorProto) { f.MessageType[4].Field[0].JsonName = proto.String("x") }},
		{"type", func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[4].Field[0].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		}},
		{"label", func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[4].Field[0].Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}},
		{"field removed",
			func(f *descriptorpb.FileDescriptorProto) { f.MessageType[4].Field = f.MessageType[4].Field[:1] }},
		{"message removed", func(f *descriptorpb.FileDescriptorProto) { f.MessageType = f.MessageType[1:] }},
		{"method streams", func(f *descriptorpb.FileDescriptorProto) {
			f.Service[0].Method[0].ServerStreaming = proto.Bool(true)
		}},
		{"method input", func(f *descriptorpb.FileDescriptorProto) {
			f.Service[0].Method[0].InputType = proto.String(".inference.ModelReadyRequest")
		}},
		{"package", func(f *descriptorpb.FileDescriptorProto) { f.Package = proto.String("other") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := proto.Clone(base).(*descriptorpb.FileDescriptorProto)
			tt.change(f)
			if strings.Join(facts(f), "\n") == before {
				t.Errorf("facts are the same after the change")
			}
		})
	}
}

// wheelDescriptors runs the dump script in the virtual environment. Without one it skips, or fails where
// everything must run (NEREID_TEST_FULL=1).
func wheelDescriptors(t *testing.T) *descriptorpb.FileDescriptorSet {
	t.Helper()
	venv := os.Getenv("NEREID_VENV")
	if venv == "" {
		venv = filepath.Join("..", "..", ".cache", "venv")
	}
	missing := t.Skipf
	if os.Getenv("NEREID_TEST_FULL") == "1" {
		missing = t.Fatalf
	}
	python := filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		missing("no Python environment with tritonclient at %s (set NEREID_VENV): %v", venv, err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(python, filepath.Join("testdata", "dump_descriptors.py"))
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if strings.Contains(stderr.String(), "ModuleNotFoundError") {
			missing("the Python environment %s has no tritonclient[grpc]: %v\n%s", venv, err, stderr.Bytes())
		}
		t.Fatalf("dump_descriptors.py: %v\n%s", err, stderr.Bytes())
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(out, set); err != nil {
		t.Fatalf("the dump is no FileDescriptorSet: %v", err)
	}
	return set
}

// facts lists all that matters on the wire and to reflection, one line each. Options are left out: only
// go_package differs, and the wheel sets none.
func facts(f *descriptorpb.FileDescriptorProto) []string {
	lines := []string{fmt.Sprintf("file %s package %s syntax %s imports %v",
		f.GetName(), f.GetPackage(), f.GetSyntax(), f.GetDependency())}
	for _, e := range f.GetEnumType() {
		lines = append(lines, enumFacts("", e)...)
	}
	for _, m := range f.GetMessageType() {
		lines = append(lines, messageFacts("", m)...)
	}
	for _, s := range f.GetService() {
		for i, m := range s.GetMethod() {
			lines = append(lines, fmt.Sprintf("method %s/%s #%d (%s stream=%v) returns (%s stream=%v)", s.GetName(),
				m.GetName(), i, m.GetInputType(), m.GetClientStreaming(), m.GetOutputType(), m.GetServerStreaming()))
		}
	}
	return lines
}

// jsonName returns the JSON name: Python leaves it out of a descriptor where it is the usual one.
func jsonName(f *descriptorpb.FieldDescriptorProto) string {
	if f.JsonName != nil {
		return f.GetJsonName()
	}
	parts := strings.Split(f.GetName(), "_")
	for i, p := range parts {
		if i > 0 && p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

func enumFacts(scope string, e *descriptorpb.EnumDescriptorProto) []string {
	var lines []string
	for i, v := range e.GetValue() {
		lines = append(lines, fmt.Sprintf("enum %s%s #%d %s = %d allow_alias=%v", scope, e.GetName(), i, v.GetName(),
			v.GetNumber(), e.GetOptions().GetAllowAlias()))
	}
	return lines
}

func messageFacts(scope string, m *descriptorpb.DescriptorProto) []string {
	name := scope + m.GetName()
	lines := []string{fmt.Sprintf("message %s map_entry=%v reserved=%v%v extensions=%v", name,
		m.GetOptions().GetMapEntry(), m.GetReservedRange(), m.GetReservedName(), m.GetExtensionRange())}
	for i, f := range m.GetField() {
		oneof := ""
		if f.OneofIndex != nil {
			oneof = m.GetOneofDecl()[f.GetOneofIndex()].GetName()
		}
		lines = append(lines,
			fmt.Sprintf("field %s.%s #%d = %d %s %s %s json=%s oneof=%s optional=%v default=%q packed=%v",
				name, f.GetName(), i, f.GetNumber(), f.GetLabel(), f.GetType(), f.GetTypeName(), jsonName(f), oneof,
				f.GetProto3Optional(), f.GetDefaultValue(), f.GetOptions().GetPacked()))
	}
	for _, n := range m.GetNestedType() {
		lines = append(lines, messageFacts(name+".", n)...)
	}
	for _, e := range m.GetEnumType() {
		lines = append(lines, enumFacts(name+".", e)...)
	}
	return lines
}
