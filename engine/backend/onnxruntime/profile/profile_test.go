package profile

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// node writes an event of a node.
func node(name, op string, us int, inputs, outputs string) string {
	return fmt.Sprintf(`{"cat":"Node","name":"%s_kernel_time","dur":%d,"args":{"op_name":"%s","provider":"CPU",`+
		`"input_type_shape":[%s],"output_type_shape":[%s]}}`, name, us, op, inputs, outputs)
}

func TestReadLeavesOutTheFirstRun(t *testing.T) {
	var events []string
	for i, us := range []int{5000, 10, 12, 900} { // a slow first run, and one that was disturbed
		events = append(events, `{"cat":"Session","name":"model_run","dur":7}`)
		events = append(events,
			node("a", "Conv", us, `{"float":[1,3,8,8]},{"float":[16,3,5,5]}`, `{"float":[1,16,8,8]}`))
		for range 2 { // in a loop
			events = append(events, node("b", "Gemm", 30+i, `{"float":[4,7]},{"float":[7,5]}`, `{"float":[4,5]}`))
		}
	}
	p, err := Read([]byte("["+strings.Join(events, ",")+"]"), 4)
	if err != nil || len(p.Nodes) != 2 || p.Providers["CPU"] != 2 {
		t.Fatalf("Read = %+v, %v", p, err)
	}
	b, a := p.Nodes[0], p.Nodes[1]
	if b.Name != "b" || b.Time != 64*time.Microsecond || b.FLOPs != 2*4*5*7 {
		t.Errorf("the loop's node is %+v", b)
	}
	if a.Time != 12*time.Microsecond || a.FLOPs != 2*16*8*8*3*5*5 {
		t.Errorf("the convolution is %+v", a)
	}
}

func TestFLOPs(t *testing.T) {
	for _, c := range []struct {
		op              string
		inputs, outputs [][]int64
		want            int64
	}{
		{"MatMul", [][]int64{{2, 3, 8}, {8, 5}}, [][]int64{{2, 3, 5}}, 2 * 30 * 8},
		{"Gemm", [][]int64{{8, 3}, {8, 5}}, [][]int64{{3, 5}}, 2 * 15 * 8}, // the first input is transposed
		{"QLinearConv", [][]int64{{1, 4, 6, 6}, {}, {}, {8, 4, 3, 3}}, [][]int64{{1, 8, 6, 6}}, 2 * 8 * 36 * 36},
		{"Relu", [][]int64{{9}}, [][]int64{{9}}, 0},
		{"Conv", [][]int64{{1}}, [][]int64{{1}}, 0},
		{"MatMul", nil, nil, 0},
	} {
		if got := flops(&Node{Op: c.op, Inputs: c.inputs, Outputs: c.outputs}); got != c.want {
			t.Errorf("%s of %v has %d operations, want %d", c.op, c.inputs, got, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("["+node("a", "Gemm", 3, `{"float":[4,7]}`, `{"float":[4,5]}`)+"]"), 2)
	f.Add([]byte("["+node("a", "Conv", -3, `{}`, `{"float":[]}`)+"]"), 0)
	f.Fuzz(func(_ *testing.T, text []byte, runs int) { _, _ = Read(text, runs) })
}
