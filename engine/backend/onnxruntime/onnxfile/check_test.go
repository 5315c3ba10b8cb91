package onnxfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// field writes one length-delimited field.
func message(number int, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	b := binary.AppendUvarint(nil, uint64(number)<<3|2)
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...)
}

func number(field int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(field)<<3), v)
}

func dims(v ...uint64) []byte {
	var b []byte
	for _, d := range v {
		b = append(b, number(1, d)...)
	}
	return b
}

func packed(v ...uint64) []byte {
	var b []byte
	for _, d := range v {
		b = binary.AppendUvarint(b, d)
	}
	return message(1, b)
}

func name(s string) []byte { return message(8, []byte(s)) }

func initializer(parts ...[]byte) []byte { return message(7, message(5, parts...)) }

func external(location string, more ...string) []byte {
	entry := func(k, v string) []byte { return message(13, message(1, []byte(k)), message(2, []byte(v))) }
	b := append(number(14, 1), entry("location", location)...)
	for i := 0; i+1 < len(more); i += 2 {
		b = append(b, entry(more[i], more[i+1])...)
	}
	return b
}

func nested(depth int) []byte {
	b := message(5, dims(9), number(2, 1), message(9, nil)) // a broken initializer, deep inside
	for range depth {
		b = message(1, message(5, message(6, b))) // node, attribute, graph
	}
	return message(7, b)
}

const float = 1

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model []byte
		want  string // "": it passes
	}{
		{"nothing", nil, ""},
		{"raw data", initializer(dims(2, 2), number(2, float), message(9, make([]byte, 16))), ""},
		{"packed dims", initializer(packed(2, 2), number(2, float), message(9, make([]byte, 16))), ""},
		{"no elements", initializer(dims(0, 1<<40), number(2, float)), ""},
		{"scalar", initializer(number(2, float), message(9, make([]byte, 4))), ""},
		{"too few bytes", initializer(dims(2, 2), number(2, float), message(9, make([]byte, 15)), name("w")),
			`tensor "w": its shape [2 2] needs 16 bytes, the file has 15`},
		{"too few bytes, packed dims", initializer(packed(1<<20), number(2, float), message(9, make([]byte, 16))),
			"needs 4194304 bytes"},
		{"empty raw data", initializer(dims(4), number(2, float), message(9, nil)), "needs 16 bytes, the file has 0"},
		{"no data", initializer(dims(4), number(2, float)), "has 4 elements, the file has at most 0"},
		{"listed floats", initializer(dims(2), number(2, float), message(4, make([]byte, 8))), ""},
		{"too few listed floats", initializer(dims(3), number(2, float), message(4, make([]byte, 8))), "at most 2"},
		{"listed numbers", initializer(dims(2), number(2, 7), number(7, 1), number(7, 300)), ""},
		{"too few listed numbers", initializer(dims(3), number(2, 7), number(7, 1), number(7, 300)), "at most 2"},
		{"half bytes", initializer(dims(3), number(2, 22), message(9, []byte{1, 2})), ""},
		{"too few half bytes", initializer(dims(5), number(2, 22), message(9, []byte{1, 2})), "needs 3 bytes"},
		{"half bytes listed", initializer(dims(3), number(2, 22), message(5, []byte{1, 2})), ""},
		{"strings", initializer(dims(2), number(2, 8), message(6, []byte("a")), message(6, nil)), ""},
		{"too few strings", initializer(dims(3), number(2, 8), message(6, []byte("a")), message(6, nil)),
			"has 3 elements"},
		{"negative dimension", initializer(dims(1<<63), number(2, float)), "has the dimension -9223372036854775808"},
		{"overflow", initializer(dims(1<<40, 1<<40), number(2, float)), "more elements than can be"},
		{"constant of a node",
			message(7, message(1, message(5, message(5, dims(9), number(2, float), message(9, nil))))),
			"needs 36 bytes"},
		{"inside a body", nested(3), "needs 36 bytes"},
		{"function", message(25, message(7, message(5, message(5, dims(9), number(2, float), message(9, nil))))),
			"needs 36 bytes"},
		{"sparse", message(7, message(15, message(1, dims(9), number(2, float), message(9, nil)))), "needs 36 bytes"},
		{"too deep", nested(40), "nest deeper than 100"},
		{"truncated", initializer(dims(2, 2), number(2, float), message(9, make([]byte, 16)))[:20],
			"not a protocol buffer"},
		{"text", []byte("not a model at all"), "not a protocol buffer"},
		{"external", initializer(dims(4), number(2, float), external("data")), ""},
		{"external with an offset",
			initializer(dims(2), number(2, float), external("data", "offset", "8", "length", "8")), ""},
		{"external, offset over the size", initializer(dims(2), number(2, float), external("data", "offset", "12")),
			`ends at byte 20 of "data", which has 16 bytes`},
		{"external, shape over the size", initializer(dims(5), number(2, float), external("data")), "ends at byte 20"},
		{"external, length over the size", initializer(dims(1), number(2, float), external("data", "length", "17")),
			"ends at byte 17"},
		{"external, odd offset", initializer(dims(1), number(2, float), external("data", "offset", "-1")),
			`offset "-1"`},
		{"external, missing", initializer(dims(1), number(2, float), external("gone")), "is missing"},
		{"external, no location", initializer(dims(1), number(2, float), number(14, 1)), "no location"},
		{"external, upwards", initializer(dims(1), number(2, float), external("../../etc/passwd")),
			"outside the model's folder"},
		{"external, absolute", initializer(dims(1), number(2, float), external("/etc/passwd")),
			"outside the model's folder"},
		{"external, link", initializer(dims(1), number(2, float), external("link")), "through a symbolic link"},
		{"external, link inside", initializer(dims(1), number(2, float), external("inner")), ""},
		{"external, folder", initializer(dims(1), number(2, float), external("folder")), "not a regular file"},
		{"external, memory of the runtime",
			initializer(dims(1), number(2, float), external("*/_ORT_MEM_ADDR_/*", "offset", "4096")), "is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			must(t, os.WriteFile(filepath.Join(folder, "model.onnx"), tt.model, 0o644))
			must(t, os.WriteFile(filepath.Join(folder, "data"), make([]byte, 16), 0o644))
			must(t, os.Mkdir(filepath.Join(folder, "folder"), 0o755))
			must(t, os.Symlink("/etc/passwd", filepath.Join(folder, "link")))
			must(t, os.Symlink("data", filepath.Join(folder, "inner")))
			_, err := Check(filepath.Join(folder, "model.onnx"), folder)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Check = %v, want %q", err, tt.want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLocations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	tensor := func(location string) []byte { return initializer(dims(4), number(2, 1), external(location)) }
	for _, tt := range []struct {
		content []byte
		want    string
		err     error
	}{
		{bytes.Join([][]byte{tensor("w/b"), tensor("../a"), tensor("w/b")}, nil), "../a w/b", nil},
		{initializer(dims(0)), "", nil},
		{[]byte("not a model"), "", ErrMalformed},
	} {
		if err := os.WriteFile(path, tt.content, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Locations(path)
		if strings.Join(got, " ") != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%q, %v, want %q, %v", got, err, tt.want, tt.err)
		}
	}
}

// FuzzCheck checks that no input leads to a panic. The seeds are real models and their prefixes.
func FuzzCheck(f *testing.F) {
	models, err := filepath.Glob("../testdata/*.onnx")
	if err != nil || len(models) == 0 {
		f.Fatal("no models to begin with", err)
	}
	for _, path := range models {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add(nested(40))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &checker{reader: reader{r: bytes.NewReader(b), size: int64(len(b))}, info: Info{Ops: map[string]int{}},
			external: func(string) (int64, error) { return 100, nil }}
		if err := c.message(model, 0, c.size, 1); errors.Is(err, ErrMalformed) && len(b) == 0 {
			t.Fatalf("the empty message is refused: %v", err)
		} else if err == nil {
			_ = c.dangers() // it may refuse a name that is too long
		}
	})
}

func TestInfo(t *testing.T) {
	for _, tt := range []struct {
		model    string
		elements int64
		op       string
		n, rank  int
	}{
		{"default", 2, "Add", 1, 2},
		{"loop", 2, "Loop", 1, 1}, // one element in the graph, one in the body
		{"loop", 2, "Identity", 1, 1},
		{"scalar", 0, "Neg", 1, 0},
	} {
		i, err := Check("../testdata/"+tt.model+".onnx", "../testdata")
		if err != nil {
			t.Fatal(err)
		}
		if i.Elements != tt.elements || i.Ops[tt.op] != tt.n || i.InputRank != tt.rank {
			t.Errorf("%s: %+v; want %d elements, %d %s, rank %d", tt.model, *i, tt.elements, tt.n, tt.op, tt.rank)
		}
	}
}

// TestRealModels checks that Check accepts all models that ONNX Runtime accepts.
func TestRealModels(t *testing.T) {
	models, err := filepath.Glob("../testdata/*.onnx")
	if err != nil || len(models) == 0 {
		t.Fatal("no models", err)
	}
	for _, path := range models {
		if filepath.Base(path) == "huge.onnx" {
			continue // its data is made by the test that uses it
		}
		if _, err := Check(path, filepath.Dir(path)); err != nil {
			t.Errorf("Check(%s) = %v", path, err)
		}
	}
}
