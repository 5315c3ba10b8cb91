package onnxfile

import (
	"encoding/binary"
	"slices"
)

// This file finds operators with which a client's request could crash the server. A model with one runs in processes;
// see isolated.go of package onnxruntime. The numbers of fields are those of onnx.proto.

// hazard says which values of an operator must not come from a client.
type hazard struct {
	inputs []int
	why    string
}

const (
	takesMemory = "allocates as much memory as the value says"
	runsForever = "runs, and collects outputs, as often as a value says, or without end"
	readsBeyond = "does not check the shape, and reads beyond its input"
)

// hazards are the operators of ONNX Runtime 1.31 that may crash the process because of an input, by ONNX's name or
// "com.microsoft." and the name. Integer divisions are not here, because package capi survives them. make fuzz-onnx
// looks for others.
var hazards = map[string]hazard{
	"AffineGrid":      {[]int{1}, takesMemory},
	"BlackmanWindow":  {[]int{0}, takesMemory},
	"CenterCropPad":   {[]int{1}, takesMemory},
	"Col2Im":          {[]int{1, 2}, takesMemory},
	"ConstantOfShape": {[]int{0}, takesMemory},
	"DFT":             {[]int{1}, takesMemory},
	"Expand":          {[]int{1}, takesMemory},
	"HammingWindow":   {[]int{0}, takesMemory},
	"HannWindow":      {[]int{0}, takesMemory},
	"Loop":            {nil, runsForever}, // see isEndless
	"MaxUnpool":       {[]int{2}, takesMemory},
	"MelWeightMatrix": {[]int{0, 1}, takesMemory},
	"OneHot":          {[]int{1}, takesMemory},
	"Pad":             {[]int{1}, takesMemory},
	"Range":           {[]int{0, 1, 2}, takesMemory},
	"Resize":          {[]int{1, 2, 3}, takesMemory},
	"STFT":            {[]int{1, 3}, takesMemory},
	"Tile":            {[]int{1}, takesMemory},
	"Upsample":        {[]int{1}, takesMemory},

	"com.microsoft.BeamSearch":            {[]int{1, 3, 4}, takesMemory},
	"com.microsoft.CropAndResize":         {[]int{3}, takesMemory},
	"com.microsoft.DynamicQuantizeMatMul": {[]int{2, 3, 4}, readsBeyond},
	"com.microsoft.GreedySearch":          {[]int{1}, takesMemory},
	"com.microsoft.Inverse":               {[]int{0}, readsBeyond},
	"com.microsoft.MatMulIntegerToFloat":  {[]int{2, 3, 4, 5, 6}, readsBeyond},
	"com.microsoft.Pad":                   {[]int{1}, takesMemory},
	"com.microsoft.Range":                 {[]int{0, 1, 2}, takesMemory},
	"com.microsoft.Sampling":              {[]int{1}, takesMemory},
	"com.microsoft.WhisperBeamSearch":     {[]int{1, 3, 4}, takesMemory},
}

// maxTrips is how often a loop may run inside the server.
const maxTrips = 1_000_000

// keepers are operators whose outputs have no number that is not in their first input.
var keepers = map[string]bool{"Gather": true, "Identity": true, "Reshape": true, "Slice": true, "Squeeze": true,
	"Unsqueeze": true}

// noEmpty are the operators that abort the process for a tensor without elements, which a client can send where a
// dimension is variable.
var noEmpty = map[string]bool{"ConvTranspose": true, "GRU": true, "LSTM": true, "RNN": true, "Unique": true,
	"com.microsoft.AttnLSTM": true, "com.microsoft.DynamicQuantizeLSTM": true}

// convolutions never end if their second input has no elements.
var convolutions = map[string]bool{"Conv": true, "ConvInteger": true, "com.microsoft.FusedConv": true}

// unwritten are the operators, without their domain, that leave a part of their output unwritten if an input has no
// elements.
var unwritten = []string{"Concat", "ConcatFromSequence", "ConvInteger", "DynamicQuantizeMatMul", "Einsum",
	"FusedMatMul", "MatMul", "MatMulInteger", "MatMulIntegerToFloat", "QLinearConcat", "QLinearMatMul",
	"STFT", "Scan"}

// Unwritten returns an operator that leaves a part of its output unwritten if an input has no elements, "" if there is
// none.
func (i *Info) Unwritten() string {
	at := slices.IndexFunc(unwritten, func(op string) bool { return i.Ops[op] > 0 })
	if at < 0 {
		return ""
	}
	return unwritten[at]
}

// shrinkers are operators whose output may be empty although no input is, unless these inputs are fixed.
var shrinkers = map[string][]int{
	"AveragePool": {0}, "Compress": {0, 1}, "LpPool": {0}, "MaxPool": {0}, "NonMaxSuppression": {0, 1, 2, 3, 4},
	"NonZero": {0}, "Pad": {1}, "Reshape": {1}, "Resize": {0, 1, 2, 3}, "STFT": {0, 1, 3}, "Slice": {0, 1, 2, 3, 4},
	"Split": {0, 1}, "SplitToSequence": {0, 1}, "TopK": {1},
	"com.microsoft.NhwcMaxPool": {0}, "com.microsoft.QLinearAveragePool": {0},
}

// Danger is an operator of a model that may crash the process because of what a client sends.
type Danger struct {
	Op  string // its type
	Why string // "allocates ..."
}

// value is what is known of a tensor.
type value struct {
	fixed  bool // a client's values cannot influence its values
	shrunk bool // it may be empty although no input of the model is
	small  bool // as a trip count it is at most maxTrips, or the size of a dimension
}

// scope is what is known of the names of one graph. An inner graph sees the names of those around it.
type scope struct {
	parent *scope
	values map[string]value
}

// value returns what is known of a tensor. For an unknown name it assumes the worst.
func (s *scope) value(name string) value {
	for ; s != nil; s = s.parent {
		if v, ok := s.values[name]; ok {
			return v
		}
	}
	return value{shrunk: true}
}

// nodeInfo is what findDangers reads of a node.
type nodeInfo struct {
	op              string
	inputs, outputs []string
	graphs          []field
	small           bool // an attribute is a number of at most maxTrips
}

// dangers sets Info.Dangers and Info.NoEmpty. The messages are known to be well-formed and not to nest too deep.
func (c *checker) dangers() error {
	err := c.fields(0, c.size, func(f field) error {
		if f.number == 1 && f.wire == 0 { // ir_version
			c.version = f.value
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.fields(0, c.size, func(f field) error {
		switch {
		case f.number == 7 && f.wire == 2: // graph
			return c.findDangers(f.off, f.end, nil)
		case f.number == 25 && f.wire == 2: // functions
			return c.functionDangers(f)
		}
		return nil
	})
}

// findDangers records the operators of a graph that take values of clients where they must not. The values of a tensor
// are fixed if they depend on constants and on shapes only.
func (c *checker) findDangers(off, end int64, parent *scope) error {
	s := &scope{parent: parent, values: map[string]value{}}
	// names records v for the tensors in a field of the graph, whose field number in is the name.
	names := func(number, in int, v value) error {
		return c.fields(off, end, func(f field) error {
			if f.number != number || f.wire != 2 {
				return nil
			}
			v, at := v, f
			return c.fields(f.off, f.end, func(f field) error {
				if f.number != in || f.wire != 2 {
					return nil
				}
				name, err := c.text(f, 64<<10)
				if err == nil && v.fixed {
					v.small, err = c.isSmall(at)
				}
				s.values[name] = v
				return err
			})
		})
	}
	inputs := func() error { return names(11, 1, value{shrunk: parent != nil}) }
	initializers := func() error { return names(5, 8, value{fixed: true}) }
	first, then := initializers, inputs // an input of the same name may override an initializer
	if c.version < 4 {                  // before IR version 4 all initializers had to be inputs too, and were constant
		first, then = inputs, initializers
	}
	if err := first(); err != nil {
		return err
	}
	if err := then(); err != nil {
		return err
	}
	return c.fields(off, end, func(f field) error {
		if f.number != 1 || f.wire != 2 { // node
			return nil
		}
		return c.nodeDangers(f, s)
	})
}

// functionDangers is findDangers for a function. Its inputs are not fixed.
func (c *checker) functionDangers(at field) error {
	s := &scope{values: map[string]value{}}
	return c.fields(at.off, at.end, func(f field) error {
		if f.number != 7 || f.wire != 2 { // node
			return nil
		}
		return c.nodeDangers(f, s)
	})
}

// nodeDangers records the dangers of a node and of its inner graphs, and in s what is known of its outputs.
func (c *checker) nodeDangers(at field, s *scope) error {
	n, err := c.node(at)
	if err != nil {
		return err
	}
	known := value{fixed: len(n.graphs) == 0, shrunk: len(n.graphs) > 0}
	for _, name := range n.inputs {
		if name != "" {
			v := s.value(name)
			known.fixed, known.shrunk = known.fixed && v.fixed, known.shrunk || v.shrunk
		}
	}
	open := func(inputs []int) bool { // whether a client's values can influence one of them
		return slices.ContainsFunc(inputs, func(i int) bool {
			return i < len(n.inputs) && n.inputs[i] != "" && !s.value(n.inputs[i]).fixed
		})
	}
	if noEmpty[n.op] || convolutions[n.op] && open([]int{1}) {
		c.info.NoEmpty = n.op
		shrunk := known.shrunk
		if convolutions[n.op] {
			shrunk = s.value(n.inputs[1]).shrunk
		}
		if shrunk {
			c.danger(Danger{n.op,
				"aborts or hangs if its input is empty, which can happen after pooling, slicing and the like"})
		}
	}
	if h, ok := hazards[n.op]; ok && (open(h.inputs) || isEndless(n, s)) {
		c.danger(Danger{n.op, h.why})
	}
	known.shrunk = known.shrunk || open(shrinkers[n.op])
	known.small = n.op == "Constant" && n.small || keepers[n.op] && len(n.inputs) > 0 && s.value(n.inputs[0]).small
	for i, name := range n.outputs {
		s.values[name] = known
		// The scale and zero point of a dynamic quantization are single numbers, whatever a client sends.
		if n.op == "Shape" || n.op == "Size" || n.op == "DynamicQuantizeLinear" && i > 0 {
			s.values[name] = value{fixed: true, small: n.op != "DynamicQuantizeLinear"}
		}
	}
	for _, g := range n.graphs {
		if err := c.findDangers(g.off, g.end, s); err != nil {
			return err
		}
	}
	return nil
}

// isEndless reports whether a node is a loop whose trip count is absent, or is not known to be small. Only the end
// condition, which may never come true, then ends it.
func isEndless(n nodeInfo, s *scope) bool {
	return n.op == "Loop" && (len(n.inputs) == 0 || n.inputs[0] == "" || !s.value(n.inputs[0]).small)
}

// isSmall reports whether a TensorProto is one INT64 from 0 to maxTrips.
func (c *checker) isSmall(at field) (bool, error) {
	isInt64, count, n := false, 0, uint64(0)
	err := c.fields(at.off, at.end, func(f field) (err error) {
		switch {
		case f.number == 2 && f.wire == 0: // data_type
			isInt64 = f.value == 7
		case f.number == 7 && f.wire == 0: // int64_data
			count, n = count+1, f.value
		case f.number == 7 && f.wire == 2: // the same, packed
			for off := f.off; off < f.end && count < 2 && err == nil; count++ {
				n, off, err = c.varint(off, f.end)
			}
		case f.number == 9 && f.wire == 2: // raw_data
			count += int(f.end-f.off+7) / 8
			if f.end-f.off == 8 {
				var b string
				if b, err = c.text(f, 8); err == nil {
					n = binary.LittleEndian.Uint64([]byte(b))
				}
			}
		}
		return err
	})
	return isInt64 && count == 1 && n <= maxTrips, err
}

func (c *checker) danger(d Danger) {
	if !slices.Contains(c.info.Dangers, d) {
		c.info.Dangers = append(c.info.Dangers, d)
	}
}

// node reads a NodeProto.
func (c *checker) node(at field) (n nodeInfo, err error) {
	domain := ""
	err = c.fields(at.off, at.end, func(f field) error {
		if f.wire != 2 {
			return nil
		}
		switch f.number {
		case 5: // attribute
			return c.fields(f.off, f.end, func(a field) error {
				switch {
				case (a.number == 6 || a.number == 11) && a.wire == 2: // g, graphs
					n.graphs = append(n.graphs, a)
				case a.number == 3 && a.wire == 0: // i
					n.small = a.value <= maxTrips
				case a.number == 5 && a.wire == 2: // t
					n.small, err = c.isSmall(a)
				}
				return err
			})
		case 1, 2, 4, 7:
		default:
			return nil
		}
		text, err := c.text(f, 64<<10)
		switch f.number {
		case 1:
			n.inputs = append(n.inputs, text)
		case 2:
			n.outputs = append(n.outputs, text)
		case 4:
			n.op = text
		case 7:
			domain = text
		}
		return err
	})
	if domain != "" && domain != "ai.onnx" {
		n.op = domain + "." + n.op
	}
	return n, err
}
