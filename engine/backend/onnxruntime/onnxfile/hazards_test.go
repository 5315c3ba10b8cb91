package onnxfile

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// op writes a node of a graph, such as "y = Range(a, b, )" or "y = com.microsoft.Inverse(x)".
func op(text string, attributes ...[]byte) []byte {
	outputs, call, _ := strings.Cut(text, " = ")
	name, inputs, _ := strings.Cut(strings.TrimSuffix(call, ")"), "(")
	var parts [][]byte
	for in := range strings.SplitSeq(inputs, ",") {
		parts = append(parts, message(1, []byte(strings.TrimSpace(in))))
	}
	for out := range strings.SplitSeq(outputs, ", ") {
		parts = append(parts, message(2, []byte(out)))
	}
	if i := strings.LastIndex(name, "."); i >= 0 {
		parts = append(parts, message(7, []byte(name[:i])))
		name = name[i+1:]
	}
	parts = append(parts, message(4, []byte(name)))
	return bytes.Join(append(parts, attributes...), nil)
}

// graphOf writes a graph with the inputs x and n and the initializer w.
func graphOf(nodes ...[]byte) []byte {
	var b []byte
	for _, n := range nodes {
		b = append(b, message(1, n)...)
	}
	for _, in := range []string{"x", "n"} {
		b = append(b, message(11, message(1, []byte(in)))...)
	}
	return append(b, message(5, name("w"))...)
}

func TestDangers(t *testing.T) {
	body := func(nodes ...[]byte) []byte { return message(5, message(6, graphOf(nodes...))) }
	withDefault := message(7, append(graphOf(op("y = Tile(x, w)")), message(11, message(1, []byte("w")))...))
	for _, tt := range []struct {
		name    string
		model   []byte
		want    []string
		noEmpty string
	}{
		{"a client's value", message(7, graphOf(op("y = Range(w, n, w)"))), []string{"Range"}, ""},
		{"computed from a client's value", message(7, graphOf(op("a = Add(w, n)"), op("y = Tile(x, a)"))),
			[]string{"Tile"}, ""},
		{"a client's value in another input", message(7, graphOf(op("y = Tile(x, w)"))), nil, ""},
		{"a constant", message(7, graphOf(op("a = Constant()"), op("b = Mul(a, w)"), op("y = Expand(x, b)"))), nil, ""},
		{"a shape", message(7, graphOf(op("s = Shape(x)"), op("b = Mul(s, w)"), op("y = Expand(x, b)"))), nil, ""},
		{"left out", message(7, graphOf(op("y = Resize(x, , w)"))), nil, ""},
		{"an operator of another domain", message(7, graphOf(op("y = my.Range(w, n, w)"))), nil, ""},
		{"the domain by name", message(7, graphOf(op("y = ai.onnx.Range(w, n, w)"))), []string{"Range"}, ""},
		{"Microsoft's domain", message(7, graphOf(op("y = com.microsoft.Inverse(x)"))),
			[]string{"com.microsoft.Inverse"}, ""},
		{"scales of a dynamic quantization", message(7, graphOf(op("q, s, z = DynamicQuantizeLinear(x)"),
			op("y = com.microsoft.MatMulIntegerToFloat(q, w, s, w, z)"))), nil, ""},
		{"twice", message(7, graphOf(op("a = Tile(x, n)"), op("y = Tile(a, n)"))), []string{"Tile"}, ""},
		{"before its input is known", message(7, graphOf(op("y = Tile(x, s)"), op("s = Shape(x)"))),
			[]string{"Tile"}, ""},
		{"in an inner graph", message(7, graphOf(op("y = If(n)", body(op("z = Tile(x, n)"))))), []string{"Tile"}, ""},
		{"an inner graph with a constant of the outer", message(7, graphOf(op("y = If(n)",
			body(op("z = Tile(x, w)"))))), nil, ""},
		{"from an inner graph", message(7, graphOf(op("a = If(w)", body(op("z = Neg(w)"))), op("y = Tile(x, a)"))),
			[]string{"Tile"}, ""},
		{"in a function", message(25, message(7, op("y = Tile(a, b)"))), []string{"Tile"}, ""},
		{"an input with a default", append(number(1, 4), withDefault...), []string{"Tile"}, ""},
		{"an initializer of an old file", append(number(1, 3), withDefault...), nil, ""},
		{"no empty tensors", message(7, graphOf(op("y = LSTM(x, w, w)"))), nil, "LSTM"},
		{"a tensor that pooling makes empty", message(7, graphOf(op("a = MaxPool(x)"), op("b = Neg(a)"),
			op("y = LSTM(b, w, w)"))), []string{"LSTM"}, "LSTM"},
		{"pooling beside it", message(7, graphOf(op("a = MaxPool(x)"), op("y = LSTM(x, w, w)"))), nil, "LSTM"},
		{"weights of a client", message(7, graphOf(op("y = Conv(x, n)"))), nil, "Conv"},
		{"weights of a client and a tensor that pooling makes empty", message(7, graphOf(op("a = MaxPool(x)"),
			op("y = Conv(a, n)"))), nil, "Conv"},
		{"weights that pooling makes empty", message(7, graphOf(op("a = MaxPool(n)"), op("y = Conv(x, a)"))),
			[]string{"Conv"}, "Conv"},
		{"fixed weights", message(7, graphOf(op("y = Conv(x, w)"))), nil, ""},
		{"values that make tensors empty", message(7, graphOf(op("a = Slice(x, w, n)"), op("y = LSTM(a, w, w)"))),
			[]string{"LSTM"}, "LSTM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, noEmpty := dangersOf(t, tt.model)
			if !slices.Equal(got, tt.want) || noEmpty != tt.noEmpty {
				t.Errorf("dangers %v, no empty tensor for %q; want %v, %q", got, noEmpty, tt.want, tt.noEmpty)
			}
		})
	}
}

// dangersOf returns the dangerous operators of a model, and Info.NoEmpty.
func dangersOf(t *testing.T, model []byte) (ops []string, noEmpty string) {
	t.Helper()
	c := &checker{reader: reader{r: bytes.NewReader(model), size: int64(len(model))}}
	if err := c.dangers(); err != nil {
		t.Fatal(err)
	}
	for _, d := range c.info.Dangers {
		ops = append(ops, d.Op)
	}
	return ops, c.info.NoEmpty
}

// A loop that may run for long, or without end, is a danger.
func TestDangersOfLoops_D22(t *testing.T) {
	int64s := func(parts ...[]byte) []byte { return bytes.Join(append(parts, number(2, 7)), nil) }
	loopOf := func(m string, trips []byte) []byte { // M is the initializer m with these trips
		return message(7, append(graphOf(op("y = Loop("+m+", , x)", message(5, message(6, graphOf(op("z = Neg(x)")))))),
			message(5, trips, name("m"))...))
	}
	for _, tt := range []struct {
		name      string
		model     []byte
		dangerous bool
	}{
		{"a loop without a trip count", loopOf("", int64s(number(7, 3))), true},
		{"a loop whose trips a client says", loopOf("n", int64s(number(7, 3))), true},
		{"a loop without inputs", message(7, message(1, message(4, []byte("Loop")))), true},
		{"a gathering without inputs", message(7, message(1, message(4, []byte("Gather")))), false},
		{"a loop of 3 trips", loopOf("m", int64s(number(7, 3))), false},
		{"a loop of 3 trips, packed", loopOf("m", int64s(message(7, []byte{3}))), false},
		{"a loop of 3 trips, raw", loopOf("m", int64s(message(9, []byte{3, 0, 0, 0, 0, 0, 0, 0}))), false},
		{"a loop of several trips", loopOf("m", int64s(message(7, []byte{3, 3}))), true},
		{"a loop of several trips, raw", loopOf("m", int64s(message(9, make([]byte, 16)))), true},
		{"a loop of too many trips", loopOf("m", int64s(number(7, 1<<62))), true},
		{"a loop of too many trips, raw", loopOf("m", int64s(message(9, []byte("88888888")))), true},
		{"a loop of trips of another type", loopOf("m", append(number(2, float), number(7, 3)...)),
			true},
		{"a loop of constant trips", message(7, graphOf(op("m = Constant()", message(5, number(3, 3))),
			op("y = Loop(m, , x)"))), false},
		{"a loop of trips of a constant tensor", message(7, graphOf(op("m = Constant()", message(5,
			message(5, int64s(number(7, 3))))), op("y = Loop(m, , x)"))), false},
		{"a loop over a dimension", message(7, graphOf(op("s = Shape(x)"), op("m = Gather(s, w)"),
			op("y = Loop(m, , x)"))), false},
		{"a loop of computed trips", message(7, graphOf(op("s = Shape(x)"), op("m = Mul(s, s)"),
			op("y = Loop(m, , x)"))), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := dangersOf(t, tt.model); slices.Equal(got, []string{"Loop"}) != tt.dangerous {
				t.Errorf("dangers %v, want the loop: %t", got, tt.dangerous)
			}
		})
	}
}
