package onnxfile

import (
	"fmt"
	"os"
	"slices"
)

// Description is what a model file says about itself.
type Description struct {
	IRVersion uint64 // of the file's format
	Producer  string // the program that wrote it, with its version
	// Opsets are the versions of the operator sets by domain; "" is ONNX's own.
	Opsets map[string]uint64
	// Weights are the initializers of the graph by data type.
	Weights map[string]Weights
	// Functions are the operators that the file itself defines.
	Functions map[Operator]bool
	// Inputs and Outputs are those of the graph, at most MaxNodes of each. Inputs that an initializer makes optional
	// are last; before IR version 4 they are constants, and not here.
	Inputs, Outputs []Port
}

// Port is an input or output. Dims has -1 for an open dimension; DimNames has the file's name for it, or "".
type Port struct {
	Name     string
	DataType string // "UNDEFINED" if it is no tensor, such as a sequence
	Dims     []int64
	DimNames []string
}

// Operator is a type of nodes. Domain is "" for ONNX's own operators.
type Operator struct{ Domain, Name string }

// String is the name, after the domain if there is one: "com.microsoft:FusedConv".
func (o Operator) String() string {
	if o.Domain == "" {
		return o.Name
	}
	return o.Domain + ":" + o.Name
}

// Weights are tensors of one data type.
type Weights struct{ Tensors, Elements, Bytes int64 }

// Total returns the sum over all data types.
func (d *Description) Total() (sum Weights) {
	for _, w := range d.Weights {
		sum.Tensors, sum.Elements, sum.Bytes = sum.Tensors+w.Tensors, sum.Elements+w.Elements, sum.Bytes+w.Bytes
	}
	return sum
}

// typeNames are the protocol's names by TensorProto.DataType; types that it does not have keep ONNX's.
var typeNames = [...]string{
	1: "FP32", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 8: "BYTES", 9: "BOOL",
	10: "FP16", 11: "FP64", 12: "UINT32", 13: "UINT64", 14: "COMPLEX64", 15: "COMPLEX128", 16: "BF16",
	17: "FLOAT8E4M3FN", 18: "FLOAT8E4M3FNUZ", 19: "FLOAT8E5M2", 20: "FLOAT8E5M2FNUZ", 21: "UINT4", 22: "INT4",
	23: "FLOAT4E2M1", 24: "FLOAT8E8M0", 25: "UINT2", 26: "INT2",
}

// describer reads a Description.
type describer struct {
	checker
	constant map[string]bool // the names of the initializers
}

// Describe reads the model file at path. The error wraps ErrMalformed if the file is no protocol buffer.
func Describe(path string) (*Description, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	d := &Description{Opsets: map[string]uint64{}, Weights: map[string]Weights{}, Functions: map[Operator]bool{}}
	c := &describer{checker{reader: reader{r: f, size: info.Size()}}, map[string]bool{}}
	var version string
	err = c.fields(0, c.size, func(f field) (err error) {
		switch {
		case f.number == 1 && f.wire == 0: // ir_version
			d.IRVersion = f.value
		case f.number == 2 && f.wire == 2: // producer_name
			d.Producer, err = c.text(f, 4096)
		case f.number == 3 && f.wire == 2: // producer_version
			version, err = c.text(f, 4096)
		case f.number == 7 && f.wire == 2: // graph
			err = c.describeGraph(d, f)
		case f.number == 8 && f.wire == 2: // opset_import
			err = c.describeOpset(d, f)
		case f.number == 25 && f.wire == 2: // functions
			err = c.describeFunction(d, f)
		}
		return err
	})
	if version != "" {
		d.Producer += " " + version
	}
	optional := func(p Port) bool { return c.constant[p.Name] }
	if d.IRVersion < 4 {
		d.Inputs = slices.DeleteFunc(d.Inputs, optional)
	} else {
		last := slices.Clone(d.Inputs)
		d.Inputs = append(slices.DeleteFunc(d.Inputs, optional),
			slices.DeleteFunc(last, func(p Port) bool { return !optional(p) })...)
	}
	return d, err
}

func (c *checker) describeOpset(d *Description, at field) error {
	var domain string
	var version uint64
	err := c.fields(at.off, at.end, func(f field) (err error) {
		switch {
		case f.number == 1 && f.wire == 2:
			domain, err = c.text(f, 4096)
		case f.number == 2 && f.wire == 0:
			version = f.value
		}
		return err
	})
	if len(d.Opsets) < maxProperties {
		d.Opsets[domain] = version
	}
	return err
}

func (c *checker) describeFunction(d *Description, at field) error {
	var of Operator
	err := c.fields(at.off, at.end, func(f field) (err error) {
		switch {
		case f.number == 1 && f.wire == 2:
			of.Name, err = c.text(f, 4096)
		case f.number == 10 && f.wire == 2:
			of.Domain, err = c.text(f, 4096)
		}
		return err
	})
	if len(d.Functions) < maxProperties {
		d.Functions[of] = true
	}
	return err
}

// describeGraph adds the initializers, inputs and outputs of a graph.
func (c *describer) describeGraph(d *Description, graph field) error {
	return c.fields(graph.off, graph.end, func(f field) error {
		if f.wire != 2 {
			return nil
		}
		switch f.number {
		case 5: // initializer
			return c.describeWeight(d, f)
		case 11: // input
			return c.describePort(&d.Inputs, f)
		case 12: // output
			return c.describePort(&d.Outputs, f)
		}
		return nil
	})
}

// describeWeight adds an initializer.
func (c *describer) describeWeight(d *Description, at field) error {
	var t tensorInfo
	if err := c.fields(at.off, at.end, func(f field) error { return c.tensorField(&t, f) }); err != nil {
		return err
	}
	c.constant[t.name] = true
	n, err := t.elements()
	if err != nil {
		return fmt.Errorf("tensor %q: %w", t.name, err)
	}
	name, bits := "?", uint64(0)
	if t.dtype < uint64(len(typeNames)) && typeNames[t.dtype] != "" {
		name, bits = typeNames[t.dtype], elementBits[t.dtype]
	}
	w := d.Weights[name]
	d.Weights[name] = Weights{w.Tensors + 1, w.Elements + int64(n), w.Bytes + int64((n*bits+7)/8)}
	return nil
}

// describePort adds a ValueInfoProto to a list.
func (c *checker) describePort(list *[]Port, at field) error {
	if len(*list) >= MaxNodes {
		return nil
	}
	p := Port{DataType: "UNDEFINED"}
	err := c.fields(at.off, at.end, func(f field) (err error) {
		switch {
		case f.number == 1 && f.wire == 2:
			p.Name, err = c.text(f, maxNodeText)
		case f.number == 2 && f.wire == 2: // TypeProto
			err = c.fields(f.off, f.end, func(f field) error {
				if f.number != 1 || f.wire != 2 { // no tensor
					return nil
				}
				return c.fields(f.off, f.end, func(f field) error { return c.tensorType(&p, f) })
			})
		}
		return err
	})
	*list = append(*list, p)
	return err
}

// tensorType reads a field of a TypeProto.Tensor.
func (c *checker) tensorType(p *Port, f field) error {
	switch {
	case f.number == 1 && f.wire == 0: // elem_type
		if f.value < uint64(len(typeNames)) && typeNames[f.value] != "" {
			p.DataType = typeNames[f.value]
		}
	case f.number == 2 && f.wire == 2: // shape
		return c.fields(f.off, f.end, func(f field) error {
			if f.number != 1 || f.wire != 2 || len(p.Dims) == maxRank {
				return nil
			}
			dim, name := int64(-1), ""
			err := c.fields(f.off, f.end, func(f field) (err error) {
				switch {
				case f.number == 1 && f.wire == 0: // dim_value
					dim = max(-1, int64(f.value))
				case f.number == 2 && f.wire == 2: // dim_param
					name, err = c.text(f, 4096)
				}
				return err
			})
			p.Dims, p.DimNames = append(p.Dims, dim), append(p.DimNames, name)
			return err
		})
	}
	return nil
}
