package savedmodel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// FileName is the file in a SavedModel's folder that describes it.
const FileName = "saved_model.pb"

// Names of signatures that are none of a client's.
const (
	initSignature  = "__saved_model_init_op"
	trainSignature = "__saved_model_train_op"
)

// Model is the content of a SavedModel.
type Model struct{ Graphs []Graph }

// Graph is one of its graphs.
type Graph struct {
	Tags       []string
	Signatures map[string]Signature
}

// Signature is what a graph can be asked for. Its tensors are in the order of their names.
type Signature struct {
	Inputs, Outputs []Tensor
}

// Tensor is an input or output.
type Tensor struct {
	Name string // the client's
	// Node is the graph's: "serving_default_x:0"; "" for a tensor that is not dense.
	Node string
	Type int // TensorFlow's DataType
	// Dims is the shape, -1 for a variable dimension. It says nothing if Unranked is set.
	Dims     []int64
	Unranked bool
}

// most is how many bytes are read of one part that is not a graph.
const most = 64 << 20

// ErrFormat is the error of a file that is not a SavedModel.
var ErrFormat = errors.New("it is not a protocol buffer of a SavedModel")

// Read reads the description in a SavedModel's folder.
func Read(folder string) (*Model, error) {
	f, err := os.Open(filepath.Join(folder, FileName))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			if _, terr := os.Stat(filepath.Join(folder, FileName+"txt")); terr == nil {
				return nil, fmt.Errorf("%s has a %stxt, which is not read; save the model again, in the binary "+
					"form: %w", folder, FileName, err)
			}
		}
		return nil, err
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	m, err := Parse(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return m, nil
}

// Parse reads a SavedModel of size bytes; graphs are skipped, not read. Format: saved_model.proto and
// meta_graph.proto of TensorFlow.
func Parse(r io.ReaderAt, size int64) (*Model, error) {
	m := &Model{}
	err := fields(r, 0, size, func(num protowire.Number, at, n int64) error {
		if num != 2 { // meta_graphs
			return nil
		}
		g, err := graph(r, at, n)
		m.Graphs = append(m.Graphs, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(m.Graphs) == 0 {
		return nil, fmt.Errorf("%w: it has no graph", ErrFormat)
	}
	return m, nil
}

// fields calls f with each length-delimited field of a message.
func fields(r io.ReaderAt, at, size int64, f func(num protowire.Number, at, n int64) error) error {
	var head [2 * 10]byte
	for end := at + size; at < end; {
		b := head[:min(int64(len(head)), end-at)]
		if n, err := r.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ErrFormat
		}
		at += int64(n)
		if typ != protowire.BytesType {
			skip := protowire.ConsumeFieldValue(num, typ, b[n:])
			if skip < 0 {
				return ErrFormat
			}
			at += int64(skip)
			continue
		}
		length, k := protowire.ConsumeVarint(b[n:])
		if k < 0 || length > uint64(end-at-int64(k)) {
			return ErrFormat
		}
		at += int64(k)
		if err := f(num, at, int64(length)); err != nil {
			return err
		}
		at += int64(length)
	}
	return nil
}

func graph(r io.ReaderAt, at, size int64) (Graph, error) {
	g := Graph{Signatures: map[string]Signature{}}
	err := fields(r, at, size, func(num protowire.Number, at, n int64) error {
		if num != 1 && num != 5 { // meta_info_def, signature_def
			return nil
		}
		if n > most {
			return fmt.Errorf("%w: a part of it has %d bytes", ErrFormat, n)
		}
		b := make([]byte, n)
		if k, err := r.ReadAt(b, at); k < len(b) {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if num == 1 {
			return message(b, func(num protowire.Number, v []byte, _ uint64) error {
				if num == 4 {
					g.Tags = append(g.Tags, string(v))
				}
				return nil
			})
		}
		return entry(b, func(name string, v []byte) (err error) {
			g.Signatures[name], err = signature(v)
			return err
		})
	})
	return g, err
}

// message calls f with each field of a message: its bytes, or its number.
func message(b []byte, f func(num protowire.Number, v []byte, n uint64) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ErrFormat
		}
		var v []byte
		var x uint64
		k := 0
		switch typ {
		case protowire.BytesType:
			v, k = protowire.ConsumeBytes(b[n:])
		case protowire.VarintType:
			x, k = protowire.ConsumeVarint(b[n:])
		default:
			k = protowire.ConsumeFieldValue(num, typ, b[n:])
		}
		if k < 0 {
			return ErrFormat
		}
		if err := f(num, v, x); err != nil {
			return err
		}
		b = b[n+k:]
	}
	return nil
}

// entry calls f with the key and value of an entry of a map by text.
func entry(b []byte, f func(key string, v []byte) error) error {
	key, value := "", []byte(nil)
	err := message(b, func(num protowire.Number, v []byte, _ uint64) error {
		switch num {
		case 1:
			key = string(v)
		case 2:
			value = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f(key, value)
}

func signature(b []byte) (Signature, error) {
	var s Signature
	err := message(b, func(num protowire.Number, v []byte, _ uint64) error {
		if num != 1 && num != 2 { // inputs, outputs
			return nil
		}
		return entry(v, func(name string, v []byte) error {
			t, err := tensor(v)
			t.Name = name
			if num == 1 {
				s.Inputs = append(s.Inputs, t)
			} else {
				s.Outputs = append(s.Outputs, t)
			}
			return err
		})
	})
	byName := func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) }
	slices.SortStableFunc(s.Inputs, byName)
	slices.SortStableFunc(s.Outputs, byName)
	return s, err
}

// tensor reads a TensorInfo.
func tensor(b []byte) (Tensor, error) {
	t := Tensor{Unranked: true}
	err := message(b, func(num protowire.Number, v []byte, n uint64) error {
		switch num {
		case 1:
			t.Node = string(v)
		case 2:
			t.Type = int(int32(n)) //nolint:gosec // an enumeration
		case 3:
			t.Unranked, t.Dims = false, nil
			return message(v, func(num protowire.Number, v []byte, n uint64) error {
				switch num {
				case 2:
					size := int64(0) // proto3 leaves zeros out
					err := message(v, func(num protowire.Number, _ []byte, n uint64) error {
						if num == 1 {
							size = int64(n) //nolint:gosec // as protocol buffers have it
						}
						return nil
					})
					t.Dims = append(t.Dims, max(size, -1))
					return err
				case 3:
					t.Unranked = n != 0
				}
				return nil
			})
		}
		return nil
	})
	return t, err
}

// Choice is what a configuration asks a SavedModel for.
type Choice struct {
	Tags      []string // of the graph, all of them
	Name      string   // of the signature
	Signature Signature
}

// Choose returns the signature that a configuration asks for: of the graph with the tag ("": "serve"), the one with the
// name ("": "serving_default"). Where no name is given and there is no such one, the first by name is taken, as Triton
// does, of those that are a client's.
func (m *Model) Choose(tag, name string) (Choice, error) {
	want := cmp.Or(tag, "serve")
	i := slices.IndexFunc(m.Graphs, func(g Graph) bool { return slices.Contains(g.Tags, want) })
	if i < 0 {
		var all []string
		for _, g := range m.Graphs {
			all = append(all, strings.Join(g.Tags, "+"))
		}
		return Choice{}, fmt.Errorf("expected '%s' tag, the SavedModel has %s; "+
			"name one in the parameter TF_GRAPH_TAG", want, strings.Join(all, ", "))
	}
	g := m.Graphs[i]
	chosen := cmp.Or(name, "serving_default")
	if s, ok := g.Signatures[chosen]; ok {
		return Choice{g.Tags, chosen, s}, nil
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(g.Signatures)),
		func(n string) bool { return n == initSignature || n == trainSignature })
	if name == "" && len(names) > 0 {
		return Choice{g.Tags, names[0], g.Signatures[names[0]]}, nil
	}
	return Choice{}, fmt.Errorf("expected '%s' signature, the SavedModel has %s; name one in the parameter "+
		"TF_SIGNATURE_DEF", chosen, cmp.Or(strings.Join(names, ", "), "none"))
}
