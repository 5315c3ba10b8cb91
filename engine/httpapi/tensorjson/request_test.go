package tensorjson

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const (
	zeroTo15   = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
	addSubJSON = `{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"INT32","data":[` + zeroTo15 + `]},` +
		`{"name":"INPUT1","shape":[1,16],"datatype":"INT32","data":[` + zeroTo15 + `]}]}`
)

func oneInput(shape, datatype, data string) string {
	return `{"inputs": [{"name": "INPUT0", "shape": ` + shape + `, "datatype": "` + datatype + `", "data": ` + data +
		`}]}`
}

func parseText(t testing.TB, doc string) (*infer.Request, *Parser, error) {
	t.Helper()
	var pool tensor.Pool
	p := &Parser{Pool: &pool}
	r := infer.New()
	return r, p, p.parse(r, []byte(doc))
}

func TestParameters_B045_B046_B047(t *testing.T) {
	r, _, err := parseText(t, `{"parameters":{"sequence_id":18446744073709551615,
		"sequence_start":true,"sequence_end":true,
		"priority":3,"timeout":2500,"s":"x","i":-4,"b":true},"id":"a\u00e9","inputs":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if r.ID != "aé" || r.Correlation != (infer.CorrelationID{Number: 1<<64 - 1}) || r.Priority != 3 ||
		r.Timeout != 2500*time.Microsecond || r.Flags != infer.SequenceStart|infer.SequenceEnd {
		t.Errorf("parsed %q %v %d %v %v", r.ID, r.Correlation, r.Priority, r.Timeout, r.Flags)
	}
	want := []infer.Parameter{
		{Name: "s", Kind: infer.StringParameter, Text: "x"}, {Name: "i", Kind: infer.IntParameter, Int: -4},
		{Name: "b", Kind: infer.BoolParameter, Bool: true},
	}
	if !slices.Equal(r.Parameters, want) {
		t.Errorf("parameters %+v, want %+v", r.Parameters, want)
	}
	r, _, err = parseText(t, `{"parameters":{"sequence_id":"seq"},"inputs":[]}`)
	if err != nil || r.Correlation.Text != "seq" {
		t.Errorf("string sequence_id gives %v, %v", r.Correlation, err)
	}
	r.Release()
}

func TestRequestedOutputs_B032(t *testing.T) {
	r, p, err := parseText(t, `{"outputs":[{"name":"a"},{"name":"b","parameters":{"binary_data":false}},
		{"name":"c","parameters":{"binary_data":true,"classification":5}}],"inputs":[],
		"parameters":{"binary_data_output":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	want := []infer.RequestedOutput{{Name: "a"}, {Name: "b"}, {Name: "c", Binary: true, Classification: 5}}
	if !slices.Equal(r.Outputs, want) || !p.binaryOutput {
		t.Errorf("outputs %+v, want %+v", r.Outputs, want)
	}
}

// Hostile documents are refused with a client's error. The ids are those of docs/reliability.md.
func TestHostileJSON(t *testing.T) {
	in := func(shape, dt, rest string) string {
		return `{"inputs":[{"name":"x","shape":` + shape + `,"datatype":"` + dt + `",` + rest + `}]}`
	}
	for _, tt := range []struct{ name, doc, want string }{
		{"A1 truncated", `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1`, "Missing a comma or ']'"},
		{"A1 not an object", `"x"`, "non-existing object member 'inputs'"},
		{"A2 deep data", in("[1]", "FP32", `"data":`+strings.Repeat("[", 100000)), "Nesting deeper"},
		{"A2 deep unknown key", `{"x":` + strings.Repeat(`{"a":`, 100000), "Nesting deeper"},
		{"A2 deep parameters", `{"parameters":{"x":` + strings.Repeat(`[`, 100000), "Nesting deeper"},
		{"A3 duplicate inputs", `{"inputs":[],"inputs":[]}`, "two members of this name"},
		{"A3 duplicate shape", in("[1]", "FP32", `"data":[1],"shape":[2]`), "two members of this name"},
		{"A3 duplicate data", in("[1]", "FP32", `"data":[1],"data":[2]`), "two members of this name"},
		{"A3 megabyte key unclosed", `{"` + strings.Repeat("k", 1<<20), "closing quotation mark"},
		{"A3 10000 inputs", `{"inputs":[` + strings.Repeat(`{"name":"x","shape":[1],"datatype":"UINT8","data":[1]},`,
			10000) + `]}`, "Invalid value"},
		{"A3 5000 inputs", `{"inputs":[` + strings.Repeat(`{"name":"x","shape":[1],"datatype":"UINT8","data":[1]},`,
			4999) +
			`{"name":"x","shape":[1],"datatype":"UINT8","data":[1]}]}`, "more than 4096"},
		{"A4 negative dim", in("[-1]", "FP32", `"data":[1]`), "non-unsigned-integer"},
		{"A4 dim over 2^63", in("[9223372036854775808]", "FP32", `"data":[1]`), "over 2^63-1"},
		{"A4 dim over 2^64", in("[18446744073709551616]", "FP32", `"data":[1]`), "non-unsigned-integer"},
		{"A4 product wraps at 2^64", in("[8589934592,8589934592]", "FP32", `"data":[1]`),
			"more elements than an int64"},
		{"A4 product wraps at 2^32", in("[65536,65536]", "FP32", `"data":[1]`), "Shape does not match"},
		{"A4 huge shape of strings", in("[1000000000]", "BYTES", `"data":["a"]`), "Shape does not match"},
		{"A5 size negative", in("[1]", "FP32", `"parameters":{"binary_data_size":-4}`), "non-unsigned-integer"},
		{"A5 size float", in("[1]", "FP32", `"parameters":{"binary_data_size":4.0}`), "non-unsigned-integer"},
		{"A5 size string", in("[1]", "FP32", `"parameters":{"binary_data_size":"4"}`), "non-unsigned-integer"},
		{"A5 data and size", in("[1]", "FP32", `"data":[1],"parameters":{"binary_data_size":4}`),
			"But set 'data' 'binary_data_size'"},
		{"A12 fewer strings", in("[3]", "BYTES", `"data":["a","b"]`), "Shape does not match"},
		{"A12 more strings", in("[1]", "BYTES", `"data":["a","b"]`), "Shape does not match"},
		{"A12 string of a number", in("[1]", "BYTES", `"data":[1]`), "non-string as string"},
		{"A18 id not UTF-8", "{\"id\":\"\xff\",\"inputs\":[]}", "must be UTF-8"},
		{"A18 NUL in id", `{"id":"a\u0000","inputs":[]}`, "without NUL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, err := parseText(t, tt.doc)
			r.Release()
			if err == nil || status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("parse = %v, want InvalidArg with %q", err, tt.want)
			}
		})
	}
	r, _, err := parseText(t, `{`+strings.Repeat(`"unknown":1,`, 100000)+`"inputs":[]}`)
	r.Release()
	if err != nil {
		t.Errorf("100,000 unknown keys: %v", err)
	}
}

// encodeRequest returns a parsed request as JSON.
func encodeRequest(r *infer.Request, p *Parser) []byte {
	var pool tensor.Pool
	w := &Builder{}
	w.Start(&pool, 512)
	w.B = append(w.B, `{"id":`...)
	w.B = AppendString(w.B, r.ID)
	w.B = append(w.B, `,"parameters":{"binary_data_output":`...)
	w.B = strconv.AppendBool(w.B, p.binaryOutput)
	w.B = append(w.B, `,"sequence_start":`...)
	w.B = strconv.AppendBool(w.B, r.Flags&infer.SequenceStart != 0)
	w.B = append(w.B, `,"priority":`...)
	w.B = strconv.AppendUint(w.B, r.Priority, 10)
	for i := range r.Parameters {
		one := appendParameters(nil, r.Parameters[i:i+1])
		w.B = append(w.B, ',')
		w.B = append(w.B, one[1:len(one)-1]...)
	}
	w.B = append(w.B, `},"inputs":[`...)
	for i := range r.Inputs {
		in := &r.Inputs[i]
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.B = append(w.B, `{"name":`...)
		w.B = AppendString(w.B, in.Name)
		w.B = append(w.B, `,"datatype":"`+in.DataType.String()+`","shape":`...)
		w.B = AppendShape(w.B, in.Shape)
		if p.binarySizes[i] >= 0 {
			w.B = append(w.B, `,"parameters":{"binary_data_size":`+strconv.FormatInt(p.binarySizes[i], 10)+`}}`...)
			continue
		}
		w.B = append(w.B, `,"data":[`...)
		if err := w.Elements(in); err != nil {
			panic(err)
		}
		w.B = append(w.B, ']', '}')
	}
	w.B = append(w.B, `],"outputs":[`...)
	for i, o := range r.Outputs {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.B = append(w.B, `{"name":`...)
		w.B = AppendString(w.B, o.Name)
		w.B = append(w.B, `,"parameters":{"binary_data":`...)
		w.B = strconv.AppendBool(w.B, o.Binary)
		w.B = append(w.B, `,"classification":`...)
		w.B = strconv.AppendUint(w.B, uint64(o.Classification), 10)
		w.B = append(w.B, '}', '}')
	}
	return append(w.B, ']', '}')
}

// The parser does not panic, its memory is bounded by the document, and a request that is written and read again is the
// same.
func FuzzParseRequest(f *testing.F) {
	for _, s := range []string{
		addSubJSON,
		oneInput("[3]", "BYTES", `["a", "bc\u00e9\n", ""]`),
		oneInput("[2,1]", "FP64", `[[0.1],[1e300]]`),
		oneInput("[2]", "FP32", `[NaN, -Infinity]`),
		oneInput("[2]", "BOOL", `[true, false]`),
		oneInput("[2]", "UINT64", `[18446744073709551615, 0]`),
		`{"id":"x","inputs":[{"data":[1],"datatype":"INT8","shape":[1],"name":"late"}],"outputs":[{"name":"o",` +
			`"parameters":{"binary_data":true}}],"parameters":{"a":1,"b":"c","d":true,"binary_data_output":true}}`,
		`{"inputs":[{"name":"b","shape":[2],"datatype":"FP16","parameters":{"binary_data_size":4}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, p, err := parseText(t, string(doc))
		defer r.Release()
		if err != nil {
			if c := status.CodeOf(err); c != status.InvalidArg && c != status.NotFound {
				t.Fatalf("parse(%q) = %v with code %v", doc, err, c)
			}
			return
		}
		total := 0
		for i := range r.Inputs {
			total += len(r.Inputs[i].Data)
		}
		if total > 8*len(doc) {
			t.Fatalf("%d bytes of tensors from %d bytes", total, len(doc))
		}
		text := encodeRequest(r, p)
		again, q, err := parseText(t, string(text))
		defer again.Release()
		if err != nil {
			t.Fatalf("%q became %q, which does not parse: %v", doc, text, err)
		}
		if !sameRequest(r, again) || !slices.Equal(p.binarySizes, q.binarySizes) {
			t.Fatalf("%q changes when it is encoded and parsed again: %q", doc, text)
		}
	})
}

func sameRequest(a, b *infer.Request) bool {
	if a.ID != b.ID || a.Priority != b.Priority || a.Flags&infer.SequenceStart != b.Flags&infer.SequenceStart ||
		len(a.Inputs) != len(b.Inputs) || !slices.Equal(a.Outputs, b.Outputs) ||
		!slices.Equal(a.Parameters, b.Parameters) {
		return false
	}
	for i := range a.Inputs {
		x, y := &a.Inputs[i], &b.Inputs[i]
		if x.Name != y.Name || x.DataType != y.DataType || !slices.Equal(x.Shape, y.Shape) ||
			!bytes.Equal(x.Data, y.Data) {
			return false
		}
	}
	return true
}
