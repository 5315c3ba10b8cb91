package onnxfile

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// property is a metadata property as bytes, to be appended to a model file.
func property(key, value string) []byte {
	text := func(b []byte, number byte, s string) []byte {
		b = binary.AppendUvarint(append(b, number<<3|2), uint64(len(s)))
		return append(b, s...)
	}
	return text(nil, metadataProps, string(text(text(nil, 1, key), 2, value)))
}

func TestMetadata(t *testing.T) {
	model, err := os.ReadFile("../../../../models-sample/digits/1/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	model = append(model, property("names", "{0: 'a'}")...)
	model = append(model, property("huge", strings.Repeat("x", maxProperty+1))...)
	model = append(model, property("long", strings.Repeat("y", 100_000))...)
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Metadata(path)
	if err != nil || got["names"] != "{0: 'a'}" || got["huge"] != "" || len(got["long"]) != 100_000 {
		t.Errorf("Metadata = %v, %v", maps.Keys(got), err)
	}
	if err := os.WriteFile(path, model[:len(model)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Metadata(path); err == nil {
		t.Error("a file that is cut off is read")
	}
}

// FuzzMetadata checks that no input leads to a panic.
func FuzzMetadata(f *testing.F) {
	f.Add(property("names", "['a']"))
	f.Add(property("names", "['a']")[:7])
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "model.onnx")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = Metadata(path)
	})
}
