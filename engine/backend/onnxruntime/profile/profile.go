// Package profile reads the profiles of ONNX Runtime: events in the format of Chrome's tracing, one for each run of a
// node.
package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Profile is what the nodes of a model took.
type Profile struct {
	Nodes []Node // those that took longest first
	// Providers counts the nodes by execution provider.
	Providers map[string]int
}

// Node is a node of the graph as it runs, after ONNX Runtime's optimizations.
type Node struct {
	Name, Op, Provider string
	Time               time.Duration // in a run of the model: the median
	Inputs, Outputs    [][]int64     // shapes in the last run
	// FLOPs are the floating-point operations of matrix products and convolutions, two for each product; 0 for others.
	FLOPs int64
}

// event is an event of the file. Its other fields are not used.
type event struct {
	Category string `json:"cat"`
	Name     string `json:"name"`
	Duration int64  `json:"dur"` // microseconds
	Args     struct {
		Op       string               `json:"op_name"`
		Provider string               `json:"provider"`
		Inputs   []map[string][]int64 `json:"input_type_shape"` // one type and shape each
		Outputs  []map[string][]int64 `json:"output_type_shape"`
	} `json:"args"`
}

const kernelTime = "_kernel_time"

// Read reads a profile of a session that ran this many times. The first run, in which memory is taken, does not count.
func Read(text []byte, runs int) (Profile, error) {
	var events []event
	if err := json.Unmarshal(text, &events); err != nil {
		return Profile{}, fmt.Errorf("the profile of onnxruntime cannot be read: %w", err)
	}
	nodes, times := map[string]*Node{}, map[string][]time.Duration{}
	for _, e := range events {
		name, isNode := strings.CutSuffix(e.Name, kernelTime)
		if !isNode || e.Category != "Node" {
			continue
		}
		n := nodes[name]
		if n == nil {
			n = &Node{Name: name, Op: e.Args.Op, Provider: e.Args.Provider}
			nodes[name] = n
		}
		times[name] = append(times[name], time.Duration(e.Duration)*time.Microsecond)
		n.Inputs, n.Outputs = shapes(e.Args.Inputs), shapes(e.Args.Outputs)
		n.FLOPs = flops(n)
	}
	p := Profile{Providers: map[string]int{}}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		all := times[name]
		each := max(1, len(all)/max(1, runs)) // a node of a loop has several times in each run
		all = slices.Sorted(slices.Values(all[min(each, len(all)-1):]))
		nodes[name].Time = all[len(all)/2] * time.Duration(each)
		p.Nodes = append(p.Nodes, *nodes[name])
		p.Providers[nodes[name].Provider]++
	}
	slices.SortStableFunc(p.Nodes, func(a, b Node) int { return cmp.Compare(b.Time, a.Time) })
	return p, nil
}

func shapes(list []map[string][]int64) (out [][]int64) {
	for _, typed := range list {
		for _, shape := range typed {
			out = append(out, shape)
		}
	}
	return out
}

// weight is the input with the weights of the operators that are convolutions.
var weight = map[string]int{"Conv": 1, "FusedConv": 1, "NhwcFusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}

// product are the operators that are matrix products of their first input.
var product = map[string]bool{"MatMul": true, "FusedMatMul": true, "MatMulInteger": true, "QLinearMatMul": true,
	"DynamicQuantizeMatMul": true, "MatMulNBits": true, "MatMulIntegerToFloat": true}

// flops counts the operations of a node from its shapes.
func flops(n *Node) int64 {
	if len(n.Outputs) == 0 || len(n.Inputs) == 0 {
		return 0
	}
	out, first := volume(n.Outputs[0]), n.Inputs[0]
	at, isConv := weight[n.Op]
	switch {
	case isConv && at < len(n.Inputs) && len(n.Inputs[at]) > 1:
		return 2 * out * volume(n.Inputs[at][1:]) // products of an element of the output
	case product[n.Op] && len(first) > 0:
		return 2 * out * first[len(first)-1]
	case (n.Op == "Gemm" || n.Op == "FusedGemm") && len(n.Outputs[0]) == 2 && n.Outputs[0][0] > 0:
		return 2 * out * (volume(first) / n.Outputs[0][0]) // whether the first input is transposed or not
	}
	return 0
}

func volume(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}
