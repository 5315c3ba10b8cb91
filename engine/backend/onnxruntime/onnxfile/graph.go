package onnxfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

const (
	// MaxNodes is how many nodes of a graph ReadGraph returns.
	MaxNodes    = 5000
	maxParts    = 40 * MaxNodes // inputs, outputs and attributes of all nodes; a name of one byte takes 16 in memory
	maxListed   = 16            // elements of a list that the text of an attribute has
	maxShown    = 200           // bytes of a text that is shown
	maxNodeText = 64 << 10
)

// Graph are the nodes of a model file in their order, without those of inner graphs.
type Graph struct {
	Nodes           []Node // at most MaxNodes, and fewer if they have very many inputs, outputs and attributes
	Count           int    // of all nodes
	Inputs, Outputs []string
	// Weights are the initializers by name, each as its data type and shape: "FP32 [64, 3, 7, 7]".
	Weights map[string]string

	parts int // of Nodes
}

// Node is a node of a graph.
type Node struct {
	Name, Op, Domain string
	Inputs, Outputs  []string // names of tensors; "" for an optional one that is left out
	Attributes       []Attribute
}

// Attribute is an attribute of a node. Value is a text for people, which leaves out what is long.
type Attribute struct{ Name, Value string }

// ReadGraph reads the graph of the model file at path. The error wraps ErrMalformed if the file is no protocol buffer.
func ReadGraph(path string) (*Graph, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	c := &checker{reader: reader{r: f, size: info.Size()}}
	g := &Graph{Weights: map[string]string{}}
	err = c.fields(0, c.size, func(f field) error {
		if f.number != 7 || f.wire != 2 { // graph
			return nil
		}
		return c.fields(f.off, f.end, func(f field) error { return c.graphPart(g, f) })
	})
	return g, err
}

// graphPart reads a field of a GraphProto.
func (c *checker) graphPart(g *Graph, f field) error {
	if f.wire != 2 {
		return nil
	}
	switch f.number {
	case 1: // node
		if g.Count++; g.Count > MaxNodes || g.parts >= maxParts {
			return nil
		}
		n, err := c.graphNode(f, maxParts-g.parts)
		if g.parts += n.parts(); g.parts < maxParts {
			g.Nodes = append(g.Nodes, n)
		}
		return err
	case 5: // initializer
		var t tensorInfo
		err := c.fields(f.off, f.end, func(f field) error { return c.tensorField(&t, f) })
		if len(g.Weights) < 4*MaxNodes {
			g.Weights[t.name] = t.text()
		}
		return err
	case 11, 12: // input, output
		return c.fields(f.off, f.end, func(v field) error {
			if v.number != 1 || v.wire != 2 || len(g.Inputs)+len(g.Outputs) >= MaxNodes {
				return nil
			}
			name, err := c.text(v, maxNodeText)
			if f.number == 11 {
				g.Inputs = append(g.Inputs, name)
			} else {
				g.Outputs = append(g.Outputs, name)
			}
			return err
		})
	}
	return nil
}

// text describes a tensor.
func (t *tensorInfo) text() string {
	name := "?"
	if t.dtype < uint64(len(typeNames)) && typeNames[t.dtype] != "" {
		name = typeNames[t.dtype]
	}
	var dims []string
	for _, d := range t.dims[:min(len(t.dims), maxListed)] {
		dims = append(dims, strconv.FormatInt(d, 10))
	}
	return name + " [" + strings.Join(dims, ", ") + "]"
}

func (n *Node) parts() int { return len(n.Inputs) + len(n.Outputs) + len(n.Attributes) }

// graphNode reads a NodeProto up to this many parts.
func (c *checker) graphNode(at field, most int) (n Node, err error) {
	err = c.fields(at.off, at.end, func(f field) (err error) {
		if f.wire != 2 || n.parts() >= most {
			return nil
		}
		var text string
		if f.number != 5 {
			if text, err = c.text(f, maxNodeText); err != nil {
				return err
			}
		}
		switch f.number {
		case 1:
			n.Inputs = append(n.Inputs, text)
		case 2:
			n.Outputs = append(n.Outputs, text)
		case 3:
			n.Name = text
		case 4:
			n.Op = text
		case 5:
			var a Attribute
			a, err = c.graphAttribute(f)
			n.Attributes = append(n.Attributes, a)
		case 7:
			n.Domain = text
		}
		return err
	})
	return n, err
}

// graphAttribute reads an AttributeProto.
func (c *checker) graphAttribute(at field) (a Attribute, err error) {
	var list []string
	total := 0
	add := func(text string) {
		if total++; total <= maxListed {
			list = append(list, text)
		}
	}
	isList := false
	err = c.fields(at.off, at.end, func(f field) error {
		switch f.number {
		case 1: // name
			if f.wire == 2 {
				a.Name, err = c.text(f, maxNodeText)
				return err
			}
		case 6: // g
			add("a graph")
		case 7, 8, 9, 11: // floats, ints, strings, graphs
			isList = true
		}
		return c.attributeValue(f, add)
	})
	if total > maxListed {
		list = append(list, "…")
	}
	if a.Value = strings.Join(list, ", "); isList {
		a.Value = "[" + a.Value + "]"
	}
	return a, err
}

// attributeValue calls add with the text of each value in a field of an AttributeProto.
func (c *checker) attributeValue(f field, add func(string)) error {
	switch {
	case (f.number == 2 || f.number == 7) && f.wire == 5: // f, floats
		return c.floats(f, add)
	case f.number == 7 && f.wire == 2: // packed
		return c.floats(f, add)
	case (f.number == 3 || f.number == 8) && f.wire == 0: // i, ints
		add(strconv.FormatInt(int64(f.value), 10))
	case f.number == 8 && f.wire == 2: // packed
		for off := f.off; off < f.end; {
			v, next, err := c.varint(off, f.end)
			if err != nil {
				return err
			}
			add(strconv.FormatInt(int64(v), 10))
			off = next
		}
	case (f.number == 4 || f.number == 9) && f.wire == 2: // s, strings
		if f.end-f.off > maxShown {
			add(fmt.Sprintf("%d bytes", f.end-f.off))
			return nil
		}
		text, err := c.text(f, maxShown)
		add(strconv.Quote(text))
		return err
	case f.number == 5 && f.wire == 2: // t
		var t tensorInfo
		err := c.fields(f.off, f.end, func(f field) error { return c.tensorField(&t, f) })
		add(t.text())
		return err
	}
	return nil
}

func (c *checker) floats(f field, add func(string)) error {
	for off := f.off; off+4 <= f.end; off += 4 {
		b, err := c.at(off, 4)
		if err != nil {
			return err
		}
		if len(b) < 4 {
			return fmt.Errorf("%w: a number at byte %d is cut off", ErrMalformed, off)
		}
		v := math.Float32frombits(binary.LittleEndian.Uint32(b))
		add(strconv.FormatFloat(float64(v), 'g', 6, 32))
	}
	return nil
}
