package onnxfile

import (
	"fmt"
	"os"
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
	c := &checker{reader: reader{r: f, size: info.Size()}}
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
			err = c.describeWeights(d, f)
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

// describeWeights adds the initializers of a graph.
func (c *checker) describeWeights(d *Description, graph field) error {
	return c.fields(graph.off, graph.end, func(f field) error {
		if f.number != 5 || f.wire != 2 {
			return nil
		}
		var t tensorInfo
		if err := c.fields(f.off, f.end, func(f field) error { return c.tensorField(&t, f) }); err != nil {
			return err
		}
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
	})
}
