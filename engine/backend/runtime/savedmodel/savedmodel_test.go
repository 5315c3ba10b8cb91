package savedmodel_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/backend/runtime/savedmodel"
)

// field appends a length-delimited field.
func field(b []byte, num protowire.Number, v ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func number(b []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

// graph returns a MetaGraphDef with a tag, a graph that nothing reads, and signatures of one output each.
func graph(tag string, signatures ...string) []byte {
	g := field(nil, 1, field(number(nil, 7, 1), 4, []byte(tag)...)...)
	g = field(g, 2, bytes.Repeat([]byte{0xff}, 1000)...)
	for _, name := range signatures {
		info := field(number(field(nil, 1, []byte("node_"+name+":0")...), 2, 1), 3, number(nil, 3, 1)...)
		sig := field(nil, 2, field(field(nil, 1, []byte("y")...), 2, info...)...)
		g = field(g, 5, field(field(nil, 1, []byte(name)...), 2, sig...)...)
	}
	return g
}

func TestRead(t *testing.T) {
	m, err := savedmodel.Read(filepath.Join("testdata", "add_sub"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Choose("", "")
	want := savedmodel.Signature{
		Inputs: []savedmodel.Tensor{
			{Name: "INPUT0", Node: "serving_default_INPUT0:0", Type: 1, Dims: []int64{-1, 16}},
			{Name: "INPUT1", Node: "serving_default_INPUT1:0", Type: 1, Dims: []int64{-1, 16}},
		},
		Outputs: []savedmodel.Tensor{
			{Name: "OUTPUT0", Node: "PartitionedCall:0", Type: 1, Dims: []int64{-1, 16}},
			{Name: "OUTPUT1", Node: "PartitionedCall:1", Type: 1, Dims: []int64{-1, 16}},
		},
	}
	if err != nil || c.Name != "serving_default" || !reflect.DeepEqual(c.Tags,
		[]string{"serve"}) || !reflect.DeepEqual(c.Signature, want) {
		t.Errorf("Choose = %+v, %v; want %+v of serve", c, err, want)
	}
}

func TestReadMissingModel(t *testing.T) {
	folder := t.TempDir()
	if _, err := savedmodel.Read(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read = %v; want that it is not there", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "saved_model.pbtxt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := savedmodel.Read(folder); err == nil || !strings.Contains(err.Error(),
		"saved_model.pbtxt, which is not read") {
		t.Errorf("Read = %v; want what to do about the text form", err)
	}
}

func TestChoose(t *testing.T) {
	file := field(field(number(nil, 1, 1), 2, graph("serve", "__saved_model_init_op", "other", "also")...), 2,
		graph("gpu", "serving_default")...)
	m, err := savedmodel.Parse(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, tag, signature, want, err string }{
		{name: "D064 TF_GRAPH_TAG", tag: "gpu", want: "serving_default"},
		{name: "D064 TF_SIGNATURE_DEF", signature: "other", want: "other"},
		{name: "no serving_default: the first by name, and none of TensorFlow's own", want: "also"},
		{name: "no such tag", tag: "tpu",
			err: "expected 'tpu' tag, the SavedModel has serve, gpu; name one in the parameter TF_GRAPH_TAG"},
		{name: "no such signature", signature: "nothing",
			err: "expected 'nothing' signature, the SavedModel has also, other; name one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := m.Choose(tt.tag, tt.signature)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("Choose(%q, %q) = %v; want %q", tt.tag, tt.signature, err, tt.err)
				}
				return
			}
			if err != nil || c.Name != tt.want || len(c.Signature.Outputs) != 1 ||
				c.Signature.Outputs[0].Node != "node_"+tt.want+":0" || !c.Signature.Outputs[0].Unranked {
				t.Errorf("Choose(%q, %q) = %+v, %v; want %s", tt.tag, tt.signature, c, err, tt.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	good := field(nil, 2, graph("serve", "serving_default")...)
	for _, tt := range []struct {
		name string
		in   []byte
	}{
		{"nothing", nil},
		{"a text", []byte("not a model")},
		{"no graph", number(nil, 1, 1)},
		{"a graph that is longer than the file", good[:len(good)-1]},
		{"a tag that ends early", []byte{0xff}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if m, err := savedmodel.Parse(bytes.NewReader(tt.in), int64(len(tt.in))); !errors.Is(err,
				savedmodel.ErrFormat) {
				t.Errorf("Parse = %+v, %v; want ErrFormat", m, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	real, err := os.ReadFile(filepath.Join("testdata", "add_sub", "saved_model.pb"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(real)
	f.Add(field(nil, 2, graph("serve", "serving_default")...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := savedmodel.Parse(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		total := 0
		for _, g := range m.Graphs {
			for _, s := range g.Signatures {
				total += len(s.Inputs) + len(s.Outputs)
			}
		}
		if total > len(b) {
			t.Errorf("%d tensors of %d bytes", total, len(b))
		}
		_, _ = m.Choose("", "") // does not panic
	})
}
