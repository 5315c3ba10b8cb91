package onnxfile

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func named(name string, value []byte) []byte {
	return slices.Concat(message(1, []byte(name)), value)
}

// everyAttribute is a model with one node that has attributes of all kinds.
func everyAttribute() []byte {
	float := binary.LittleEndian.AppendUint32([]byte{2<<3 | 5}, math.Float32bits(0.5))
	var packed, many []byte
	for i := range 20 {
		packed = binary.AppendUvarint(packed, uint64(i))
		many = binary.LittleEndian.AppendUint32(many, math.Float32bits(float32(i)))
	}
	tensor := slices.Concat(message(8, []byte("w")), number(2, 1), number(1, 3))
	node := slices.Concat(message(1, []byte("x")), message(1), message(2, []byte("y")),
		message(3, []byte("first")), message(4, []byte("Op")), message(7, []byte("domain")),
		message(5, named("f", float)), message(5, named("i", number(3, math.MaxUint64))),
		message(5, named("s", message(4, []byte("a\"b")))),
		message(5, named("long", message(4, []byte(strings.Repeat("z", 300))))),
		message(5, named("t", message(5, tensor))),
		message(5, named("g", message(6))),
		message(5, named("ints", message(8, packed))),
		message(5, named("floats", message(7, many))),
		message(5, named("strings", slices.Concat(message(9, []byte("p")), message(9, []byte("q"))))))
	return message(7, message(1, node), message(5, tensor))
}

func TestReadGraphOfEveryAttribute(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, everyAttribute(), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := ReadGraph(path)
	if err != nil || g.Count != 1 || g.Weights["w"] != "FP32 [3]" {
		t.Fatalf("ReadGraph = %+v, %v", g, err)
	}
	n := g.Nodes[0]
	if n.Name != "first" || n.Op != "Op" || n.Domain != "domain" || !slices.Equal(n.Inputs, []string{"x", ""}) {
		t.Errorf("the node is %+v", n)
	}
	want := []Attribute{{"f", "0.5"}, {"i", "-1"}, {"s", `"a\"b"`}, {"long", "300 bytes"}, {"t", "FP32 [3]"},
		{"g", "a graph"}, {"ints", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, …]"},
		{"floats", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, …]"}, {"strings", `["p", "q"]`}}
	if !slices.Equal(n.Attributes, want) {
		t.Errorf("the attributes are %q,\nwant %q", n.Attributes, want)
	}
}

func TestReadGraphOfAModel(t *testing.T) {
	g, err := ReadGraph("../../../../models-sample/digits/1/model.onnx")
	if err != nil || g.Count != 13 || len(g.Nodes) != 13 || len(g.Weights) != 10 {
		t.Fatalf("ReadGraph = %+v, %v", g, err)
	}
	if !slices.Equal(g.Inputs, []string{"image"}) || !slices.Equal(g.Outputs, []string{"scores"}) {
		t.Errorf("inputs %v, outputs %v", g.Inputs, g.Outputs)
	}
	if n := g.Nodes[0]; n.Op != "Conv" || g.Weights[n.Inputs[1]] != "FP32 [16, 1, 5, 5]" || len(n.Attributes) == 0 {
		t.Errorf("the first node is %+v", n)
	}
}

func TestReadGraphIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	nodes := slices.Repeat(message(1, message(4, []byte("Relu"))), MaxNodes+7)
	if err := os.WriteFile(path, message(7, nodes), 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err := ReadGraph(path); err != nil || g.Count != MaxNodes+7 || len(g.Nodes) != MaxNodes {
		t.Errorf("%d of %d nodes, %v", len(g.Nodes), g.Count, err)
	}
}

// A file of a few bytes for each input could take many times its size in memory.
func TestReadGraphBoundsTheInputsOfNodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	small := message(1, message(1, []byte("x")))
	large := message(1, slices.Repeat(message(1), maxParts))
	if err := os.WriteFile(path, message(7, slices.Concat(small, large, small)), 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err := ReadGraph(path); err != nil || g.Count != 3 || len(g.Nodes) != 1 {
		t.Errorf("%d of %d nodes, %v", len(g.Nodes), g.Count, err)
	}
}

// FuzzReadGraph checks that no input leads to a panic, here and in Describe.
func FuzzReadGraph(f *testing.F) {
	f.Add(everyAttribute())
	f.Add(everyAttribute()[:70])
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "model.onnx")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = ReadGraph(path)
		_, _ = Describe(path)
	})
}
