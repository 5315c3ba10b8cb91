package onnxruntime

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/backend/onnxruntime/onnxfile"
)

// maxProbed is how many operators of a file are tried.
const maxProbed = 500

// unsupported returns the operators of the file that ONNX Runtime does not have, sorted. It asks ONNX Runtime to load a
// model with one node for each. Inner graphs and the file's own functions are left out.
func (x *inspector) unsupported(d *onnxfile.Description) ([]string, error) {
	g, err := onnxfile.ReadGraph(x.path)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "nereid-probe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	y := *x
	y.path = filepath.Join(dir, "model.onnx")
	tried := map[onnxfile.Operator]bool{}
	var out []string
	for _, n := range g.Nodes {
		op := onnxfile.Operator{Domain: n.Domain, Name: n.Op}
		if tried[op] || d.Functions[op] || len(tried) == maxProbed {
			continue
		}
		tried[op] = true
		if err := os.WriteFile(y.path, oneNode(op, d.Opsets), 0o600); err != nil {
			return nil, err
		}
		s, err := y.session("")
		if err == nil {
			s.Close()
		} else if isUnknown(err) {
			out = append(out, op.String())
		}
	}
	slices.Sort(out)
	return out, nil
}

// isUnknown reports whether ONNX Runtime refused a model because it does not have an operator. Known operators are
// refused for the inputs and attributes that the node does not have.
func isUnknown(err error) bool {
	text := err.Error()
	return strings.Contains(text, "is not a registered function/op") || strings.Contains(text, "No Op registered for ")
}

// oneNode returns an ONNX model with one node without inputs. Its output is that of the model, so that it stays.
func oneNode(op onnxfile.Operator, opsets map[string]uint64) []byte {
	text := func(b []byte, field protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
	}
	number := func(b []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
	}
	node := text(text(text(nil, 2, "y"), 4, op.Name), 7, op.Domain)                        // output, op_type, domain
	graph := text(text(text(nil, 1, string(node)), 2, "g"), 12, string(text(nil, 1, "y"))) // node, name, output
	model := text(number(nil, 1, 8), 7, string(graph))                                     // ir_version, graph
	for domain, version := range opsets {
		model = text(model, 8, string(number(text(nil, 1, domain), 2, version)))
	}
	return model
}
