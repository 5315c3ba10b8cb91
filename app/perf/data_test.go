package perf

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

// mixed is a model with a vector of a free size and an optional string.
func mixed() *Model {
	return &Model{Name: "m", MaxBatchSize: 8,
		Inputs: []IO{{Name: "N", DataType: tensor.Int32, Shape: []int64{2, -1}},
			{Name: "S", DataType: tensor.Bytes, Shape: []int64{1}, Optional: true}},
		Outputs: []IO{{Name: "O", DataType: tensor.FP32, Shape: []int64{-1}}}}
}

func TestParseData(t *testing.T) {
	n := func(shape []int64, v ...int32) client.Tensor { return client.Of("N", v, shape...) }
	for _, tt := range []struct {
		name, in string
		shapes   map[string][]int64
		want     [][]Step
		err      string
	}{
		{name: "F011 steps with their shapes",
			in: ` {"data": [ {"N": {"content": [1,2,3,4], "shape": [2,2]}},
{"N": {"shape": [2,1], "content": [[5],[6]]}, "S": ["x"]}]}`,
			want: [][]Step{{{Inputs: []client.Tensor{n([]int64{2, 2}, 1, 2, 3, 4)}},
				{Inputs: []client.Tensor{n([]int64{2, 1}, 5, 6), client.Strings("S", []string{"x"}, 1)}}}}},
		{name: "F011 streams", in: `{"data": [[{"N": [1,2]}], [{"N": [3,4]}, {"N": [5,6]}]]}`,
			shapes: map[string][]int64{"N": {2, 1}},
			want: [][]Step{{{Inputs: []client.Tensor{n([]int64{2, 1}, 1, 2)}}},
				{{Inputs: []client.Tensor{n([]int64{2, 1}, 3, 4)}}, {Inputs: []client.Tensor{n([]int64{2, 1}, 5,
					6)}}}}},
		{name: "F011 b64 in both forms",
			in: `{"data": [{"N": {"b64": "AQAAAAIAAAA="}},
{"N": {"content": {"b64": "AQAAAAIAAAA="}, "shape": [2,1]}}]}`,
			shapes: map[string][]int64{"N": {2, 1}},
			want: [][]Step{{{Inputs: []client.Tensor{n([]int64{2, 1}, 1, 2)}},
				{Inputs: []client.Tensor{n([]int64{2, 1}, 1, 2)}}}}},
		{name: "F011 validation_data", in: `{"data": [{"N": [1,2]}], "validation_data": [{"O": [0.5, 1]}]}`,
			shapes: map[string][]int64{"N": {2, 1}},
			want: [][]Step{{{Inputs: []client.Tensor{n([]int64{2, 1}, 1, 2)},
				Want: []client.Tensor{client.Of("O", []float32{.5, 1})}}}}},
		{name: "F011 validation_data of streams", in: `{"data": [[{"N": [1,2]}]], "validation_data": [[{"O": [1]}]]}`,
			shapes: map[string][]int64{"N": {2, 1}},
			want: [][]Step{{{Inputs: []client.Tensor{n([]int64{2, 1}, 1, 2)},
				Want: []client.Tensor{client.Of("O", []float32{1})}}}}},
		{name: "F004 timestamps", in: `{"data": [{"N": [1,2], "timestamp": [1500.5]}]}`,
			shapes: map[string][]int64{"N": {2, 1}},
			want:   [][]Step{{{Inputs: []client.Tensor{n([]int64{2, 1}, 1, 2)}, At: 1500.5, Timed: true}}}},
		{name: "F011 a free size without a shape", in: `{"data": [{"N": [1,2]}]}`,
			err: `stream 0, step 0: "N": the model's shape [2 -1] is free`},
		{name: "F011 a shape that does not fit", in: `{"data": [{"N": {"content": [1], "shape": [1,1]}}]}`,
			err: "does not fit the model's [2 -1]"},
		{name: "F011 too few values", in: `{"data": [{"N": {"content": [1], "shape": [2,1]}}]}`, err: "has 1 values"},
		{name: "F011 too few bytes", in: `{"data": [{"N": {"content": {"b64": "AQ=="}, "shape": [2,1]}}]}`,
			err: "needs 8"},
		{name: "F011 b64 that is none", in: `{"data": [{"N": {"content": {"b64": "!"}, "shape": [2,1]}}]}`, err: "b64"},
		{name: "F011 a missing input", in: `{"data": [{"S": ["x"]}]}`, err: `the input "N" is missing`},
		{name: "F011 an input that the model does not have",
			in: `{"data": [{"N": {"content": [1,2], "shape": [2,1]}, "X": [1]}]}`, err: `has no tensor "X"`},
		{name: "F011 no content", in: `{"data": [{"N": {"shape": [2,1]}}]}`, err: "neither an array of values nor b64"},
		{name: "F011 validation_data of another length", in: `{"data": [{"N": [1]}], "validation_data": []}`,
			err: `"validation_data" has 0 entries and "data" 1`},
		{name: "F011 steps behind streams", in: `{"data": [[{"N": {"content": [1,2], "shape": [2,1]}}], {"N": [1]}]}`,
			err: "stream 1: is no array of steps"},
		{name: "F011 no data", in: `{"data": []}`, err: `no "data"`},
		{name: "F011 no JSON", in: `[`, err: "is no JSON"},
		{name: "F004 a timestamp that is none", in: `{"data": [{"N": [1], "timestamp": 5}]}`, err: "timestamp"},
		{name: "F004 a timestamp of null", in: `{"data": [{"N": [1], "timestamp": [null]}]}`, err: "not [null]"},
		{name: "F011 a shape for another input", in: `{"data": [{"N": [1]}]}`, shapes: map[string][]int64{"X": {1}},
			err: `has no input "X"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := ParseData([]byte(tt.in), mixed(), InputOptions{Shapes: tt.shapes})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("ParseData = %v, want an error with %q", err, tt.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(d.Streams, tt.want) || !d.Given {
				t.Errorf("ParseData = %+v, %v; want %+v", d, err, tt.want)
			}
		})
	}
}

// --shape takes no outputs, so it is no advice for them.
func TestAdviceForExpectedOutputsOfFreeShape(t *testing.T) {
	in := `{"data": [{"N": [1,2]}], "validation_data": [{"O": {"b64": ""}}]}`
	_, err := ParseData([]byte(in), mixed(), InputOptions{Shapes: map[string][]int64{"N": {2, 1}}})
	if err == nil || !strings.HasSuffix(err.Error(), `give "shape" beside "content"`) {
		t.Errorf("F011 ParseData = %v", err)
	}
}

func TestSchedule(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []time.Duration
		err      string
	}{
		{name: "F004 entries in order",
			in:   `{"data": [{"N": [1,2], "timestamp": [0]}, {"N": [1,2], "timestamp": [0.5]}]}`,
			want: []time.Duration{0, 500 * time.Microsecond}},
		{name: "F004 streams", in: `{"data": [[{"N": [1,2], "timestamp": [1]}], [{"N": [1,2], "timestamp": [1]}]]}`,
			want: []time.Duration{time.Millisecond, time.Millisecond}},
		{name: "F004 an entry before the one before",
			in:  `{"data": [{"N": [1,2], "timestamp": [2]}, {"N": [1,2], "timestamp": [1]}]}`,
			err: "the timestamp 1 ms comes after 2ms"},
		{name: "F004 no timestamps", in: `{"data": [{"N": [1,2]}, {"N": [1,2]}]}`,
			err: `stream 0, step 0: has no "timestamp"`},
		{name: "F004 the last entry without a timestamp",
			in:  `{"data": [{"N": [1,2], "timestamp": [2]}, {"N": [1,2]}]}`,
			err: `stream 0, step 1: has no "timestamp"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := ParseData([]byte(tt.in), mixed(), InputOptions{Shapes: map[string][]int64{"N": {2, 1}}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Schedule()
			switch {
			case tt.err == "" && (err != nil || !slices.Equal(got, tt.want)):
				t.Errorf("Schedule = %v, %v; want %v", got, err, tt.want)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("Schedule = %v, want an error with %q", err, tt.err)
			}
		})
	}
}

func FuzzParseData(f *testing.F) {
	f.Add([]byte(`{"data": [{"N": {"content": [1,2,3,4], "shape": [2,2]}, "S": ["x"]}],
		"validation_data": [{"O": [0.5]}]}`))
	f.Add([]byte(`{"data": [[{"N": {"content": {"b64": "AQAAAAIAAAA="}, "shape": [2,1]}}]]}`))
	f.Add([]byte(`{"data": [{"N": {"b64": "AQAAAAIAAAA="}, "timestamp": [5]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseData(b, mixed(), InputOptions{})
		if err != nil {
			return // refusing is fine
		}
		for _, steps := range d.Streams {
			for i := range steps {
				for _, list := range [][]client.Tensor{steps[i].Inputs, steps[i].Want} {
					for k := range list {
						if err := whole(&list[k]); err != nil {
							t.Errorf("%s: %v", b, err)
						}
					}
				}
			}
		}
	})
}

func TestGenerate(t *testing.T) {
	m := mixed()
	m.Inputs[1].Optional = false
	for name, o := range map[string]InputOptions{
		"F011 random":      {StringLength: 9},
		"F011 zero":        {Zero: true},
		"F011 string-data": {String: "abc"},
	} {
		o.Shapes = map[string][]int64{"N": {2, 64}}
		t.Run(name, func(t *testing.T) {
			d, err := Generate(m, o)
			if err != nil {
				t.Fatal(err)
			}
			in := d.Streams[0][0].Inputs
			values, err := client.Values[int32](&in[0])
			if err != nil || len(values) != 128 {
				t.Fatalf("%d values, %v", len(values), err)
			}
			var sum int32
			for _, v := range values {
				sum += v
				if v < 0 || v > 127 {
					t.Errorf("value %d", v)
				}
			}
			s, err := client.StringValues(&in[1])
			if err != nil || len(s) != 1 {
				t.Fatalf("strings %q, %v", s, err)
			}
			switch {
			case (sum == 0) != o.Zero:
				t.Errorf("values %v", values)
			case o.String != "" && s[0] != o.String, o.Zero && s[0] != "", o.StringLength > 0 &&
				len(s[0]) != o.StringLength:
				t.Errorf("string %q", s[0])
			}
		})
	}
}

func TestGenerateEveryTypeAndFaults(t *testing.T) {
	m := mixed()
	t.Run("F011 every type", func(t *testing.T) {
		all := Model{Name: "m"}
		for dt := tensor.Bool; dt <= tensor.BF16; dt++ {
			all.Inputs = append(all.Inputs, IO{Name: dt.String(), DataType: dt, Shape: []int64{3}})
		}
		d, err := Generate(&all, InputOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Streams[0][0].Inputs {
			if err := whole(&d.Streams[0][0].Inputs[i]); err != nil {
				t.Error(err)
			}
		}
	})
	for want, o := range map[string]InputOptions{
		"whose size is free; give one with --shape N:d,d,…": {},
		"does not fit the model's [2 -1]":                   {Shapes: map[string][]int64{"N": {3, 1}}},
		`has no input "X"`:                                  {Shapes: map[string][]int64{"X": {1}}},
		"more than":                                         {Shapes: map[string][]int64{"N": {2, 1 << 40}}},
	} {
		if _, err := Generate(m, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("F011 Generate(%+v) = %v, want an error with %q", o, err, want)
		}
	}
}

func TestReadFolder(t *testing.T) {
	m := mixed()
	m.Outputs[0].Shape = []int64{1}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := InputOptions{Shapes: map[string][]int64{"N": {2, 1}}}
	if _, err := ReadFolder(dir, m, o); err == nil || !strings.Contains(err.Error(), `input "N"`) {
		t.Errorf("F011 without the file of an input: %v", err)
	}
	write("N", "\x01\x00\x00\x00\x02\x00\x00\x00")
	write("S", "one\n")
	write("O", "\x00\x00\x80\x3f")
	d, err := ReadFolder(dir, m, o)
	want := []Step{{Inputs: []client.Tensor{client.Of("N", []int32{1, 2}, 2, 1), client.Strings("S", []string{"one"})},
		Want: []client.Tensor{client.Of("O", []float32{1})}}}
	if err != nil || !reflect.DeepEqual(d.Streams[0], want) {
		t.Errorf("F011 ReadFolder = %+v, %v; want %+v", d, err, want)
	}
	write("S", "one\ntwo\n")
	if _, err := ReadFolder(dir, m, o); err == nil || !strings.Contains(err.Error(), "1 strings are needed") {
		t.Errorf("F011 two strings for one: %v", err)
	}
	write("S", "one")
	write("N", "\x01\x00\x00")
	if _, err := ReadFolder(dir, m, o); err == nil || !strings.Contains(err.Error(), "needs 8") {
		t.Errorf("F011 too few bytes: %v", err)
	}
}

// An expected output of variable size has as many elements as its file.
func TestReadFolderWithOutputsOfVariableSize(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		out        IO
		want       client.Tensor
		err        string
	}{
		{name: "F011 a vector", file: "\x00\x00\x80\x3f\x00\x00\x00\x40",
			out:  IO{DataType: tensor.FP32, Shape: []int64{-1}},
			want: client.Of("O", []float32{1, 2}, 2)},
		{name: "F011 two free sizes", file: "abcdef", out: IO{DataType: tensor.Uint8, Shape: []int64{2, -1, -1}},
			want: client.Of("O", []uint8("abcdef"), 2, 3, 1)},
		{name: "F011 strings", file: "one\ntwo\n", out: IO{DataType: tensor.Bytes, Shape: []int64{-1}},
			want: client.Strings("O", []string{"one", "two"}, 2)},
		{name: "F011 nothing", file: "", out: IO{DataType: tensor.FP32, Shape: []int64{-1}},
			want: client.Tensor{Name: "O", DataType: tensor.FP32, Shape: []int64{0}, Data: []byte{}}},
		{name: "F011 half a row", file: "abc", out: IO{DataType: tensor.Uint8, Shape: []int64{2, -1}},
			err: "the shape [2 1] of UINT8 needs 2"},
		{name: "F011 half an element", file: "abc", out: IO{DataType: tensor.FP32, Shape: []int64{-1}},
			err: "the shape [0] of FP32 needs 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.out.Name = "O"
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "O"), []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := ReadFolder(dir, &Model{Name: "m", Outputs: []IO{tt.out}}, InputOptions{})
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("ReadFolder = %v, want an error with %q", err, tt.err)
				}
			case err != nil || !reflect.DeepEqual(d.Streams[0][0].Want, []client.Tensor{tt.want}):
				t.Errorf("ReadFolder = %+v, %v; want %+v", d, err, tt.want)
			}
		})
	}
}

// Rows of a batch are the next steps, and so are the outputs that they must have.
func TestBatches(t *testing.T) {
	d := &Data{Streams: [][]Step{{}}}
	for i := range 3 {
		d.Streams[0] = append(d.Streams[0], Step{Inputs: []client.Tensor{client.Of("IN", []float32{float32(i), 9})},
			Want: []client.Tensor{client.Of("OUT", []int8{int8(i)})}})
	}
	m, _ := plain(t)
	f, err := newFeed(&Options{Model: m, Data: d, RequestOptions: RequestOptions{Batch: 2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][2]float32{{0, 1}, {2, 0}, {1, 2}, {0, 1}} {
		r := f.next()
		if in := client.Of("IN", []float32{want[0], 9, want[1], 9}, 2, 2); !reflect.DeepEqual(r.Inputs,
			[]client.Tensor{in}) {
			t.Errorf("F011 inputs %v, want the rows %v", r.Inputs, want)
		}
		if out := client.Of("OUT", []int8{int8(want[0]), int8(want[1])}, 2, 1); !reflect.DeepEqual(r.Want,
			[]client.Tensor{out}) {
			t.Errorf("F011 wanted outputs %v, want the rows %v", r.Want, want)
		}
		good := &client.Response{Outputs: r.Want}
		if err := check(good, r.Want); err != nil {
			t.Error(err)
		}
		if err := check(&client.Response{Outputs: []client.Tensor{client.Of("OUT", []int8{7, 7}, 2, 1)}},
			r.Want); err == nil {
			t.Error("F011 other values are taken for the wanted ones")
		}
	}
	d.Streams[0][1].Inputs[0].Shape = []int64{1, 2}
	if _, err := newFeed(&Options{Model: m, Data: d, RequestOptions: RequestOptions{Batch: 2}}); err == nil ||
		!strings.Contains(err.Error(), "use -b 1") {
		t.Errorf("F011 rows of different shapes: %v", err)
	}
}
