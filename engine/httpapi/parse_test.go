package httpapi

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

func parseText(t testing.TB, doc string) (*infer.Request, *requestParser, error) {
	t.Helper()
	var pool tensor.Pool
	p := &requestParser{pool: &pool}
	r := infer.New()
	err := p.parse(r, []byte(doc))
	return r, p, err
}

func TestParameters_B045_B046_B047(t *testing.T) {
	r, _, err := parseText(t, `{"parameters":{"sequence_id":18446744073709551615,"sequence_start":true,"sequence_end":true,
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

func TestOutputWishes_B032(t *testing.T) {
	r, p, err := parseText(t, `{"outputs":[{"name":"a"},{"name":"b","parameters":{"binary_data":false}},
		{"name":"c","parameters":{"binary_data":true,"classification":5}}],"inputs":[],"parameters":{"binary_data_output":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	want := []infer.RequestedOutput{{Name: "a"}, {Name: "b"}, {Name: "c", Binary: true, Classification: 5}}
	if !slices.Equal(r.Outputs, want) || !p.binaryOutput {
		t.Errorf("outputs %+v, want %+v", r.Outputs, want)
	}
}

// TestHostileJSON: cases A1 to A5 and A12 of the list of attacks. All must be refused with a client's error.
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
		{"A3 10000 inputs", `{"inputs":[` + strings.Repeat(`{"name":"x","shape":[1],"datatype":"UINT8","data":[1]},`, 10000) + `]}`, "Invalid value"},
		{"A3 5000 inputs", `{"inputs":[` + strings.Repeat(`{"name":"x","shape":[1],"datatype":"UINT8","data":[1]},`, 4999) +
			`{"name":"x","shape":[1],"datatype":"UINT8","data":[1]}]}`, "more than 4096"},
		{"A4 negative dim", in("[-1]", "FP32", `"data":[1]`), "non-unsigned-integer"},
		{"A4 dim over 2^63", in("[9223372036854775808]", "FP32", `"data":[1]`), "over 2^63-1"},
		{"A4 dim over 2^64", in("[18446744073709551616]", "FP32", `"data":[1]`), "non-unsigned-integer"},
		{"A4 product wraps at 2^64", in("[8589934592,8589934592]", "FP32", `"data":[1]`), "more elements than an int64"},
		{"A4 product wraps at 2^32", in("[65536,65536]", "FP32", `"data":[1]`), "Shape does not match"},
		{"A4 huge shape of strings", in("[1000000000]", "BYTES", `"data":["a"]`), "Shape does not match"},
		{"A5 size negative", in("[1]", "FP32", `"parameters":{"binary_data_size":-4}`), "non-unsigned-integer"},
		{"A5 size float", in("[1]", "FP32", `"parameters":{"binary_data_size":4.0}`), "non-unsigned-integer"},
		{"A5 size string", in("[1]", "FP32", `"parameters":{"binary_data_size":"4"}`), "non-unsigned-integer"},
		{"A5 data and size", in("[1]", "FP32", `"data":[1],"parameters":{"binary_data_size":4}`), "But set 'data' 'binary_data_size'"},
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

// encodeRequest writes a parsed request as JSON again.
func encodeRequest(r *infer.Request, p *requestParser) []byte {
	var pool tensor.Pool
	w := &builder{}
	w.start(&pool, 512)
	w.b = append(w.b, `{"id":`...)
	w.b = appendString(w.b, r.ID)
	w.b = append(w.b, `,"parameters":{"binary_data_output":`...)
	w.b = strconv.AppendBool(w.b, p.binaryOutput)
	w.b = append(w.b, `,"sequence_start":`...)
	w.b = strconv.AppendBool(w.b, r.Flags&infer.SequenceStart != 0)
	w.b = append(w.b, `,"priority":`...)
	w.b = strconv.AppendUint(w.b, r.Priority, 10)
	for i := range r.Parameters {
		one := appendParameters(nil, r.Parameters[i:i+1])
		w.b = append(w.b, ',')
		w.b = append(w.b, one[1:len(one)-1]...)
	}
	w.b = append(w.b, `},"inputs":[`...)
	for i := range r.Inputs {
		in := &r.Inputs[i]
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, `{"name":`...)
		w.b = appendString(w.b, in.Name)
		w.b = append(w.b, `,"datatype":"`+in.DataType.String()+`","shape":`...)
		w.b = appendShape(w.b, in.Shape)
		if p.binarySizes[i] >= 0 {
			w.b = append(w.b, `,"parameters":{"binary_data_size":`+strconv.FormatInt(p.binarySizes[i], 10)+`}}`...)
			continue
		}
		w.b = append(w.b, `,"data":[`...)
		if err := encodeData(w, in); err != nil {
			panic(err)
		}
		w.b = append(w.b, ']', '}')
	}
	w.b = append(w.b, `],"outputs":[`...)
	for i, o := range r.Outputs {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, `{"name":`...)
		w.b = appendString(w.b, o.Name)
		w.b = append(w.b, `,"parameters":{"binary_data":`...)
		w.b = strconv.AppendBool(w.b, o.Binary)
		w.b = append(w.b, `,"classification":`...)
		w.b = strconv.AppendUint(w.b, uint64(o.Classification), 10)
		w.b = append(w.b, '}', '}')
	}
	return append(w.b, ']', '}')
}

// FuzzParseRequest: no panic, memory bounded by the input, and what was understood survives writing and reading.
func FuzzParseRequest(f *testing.F) {
	for _, s := range []string{
		addSubJSON,
		oneInput("[3]", "BYTES", `["a", "bc\u00e9\n", ""]`),
		oneInput("[2,1]", "FP64", `[[0.1],[1e300]]`),
		oneInput("[2]", "FP32", `[NaN, -Infinity]`),
		oneInput("[2]", "BOOL", `[true, false]`),
		oneInput("[2]", "UINT64", `[18446744073709551615, 0]`),
		`{"id":"x","inputs":[{"data":[1],"datatype":"INT8","shape":[1],"name":"late"}],"outputs":[{"name":"o","parameters":{"binary_data":true}}],"parameters":{"a":1,"b":"c","d":true,"binary_data_output":true}}`,
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
		len(a.Inputs) != len(b.Inputs) || !slices.Equal(a.Outputs, b.Outputs) || !slices.Equal(a.Parameters, b.Parameters) {
		return false
	}
	for i := range a.Inputs {
		x, y := &a.Inputs[i], &b.Inputs[i]
		if x.Name != y.Name || x.DataType != y.DataType || !slices.Equal(x.Shape, y.Shape) || !bytes.Equal(x.Data, y.Data) {
			return false
		}
	}
	return true
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{"/v2", "/v2/models/m/versions/1/infer", "/v2/repository/r/models/m/load", "/v2/systemsharedmemory/region/x/status",
		"/v2/models//infer", "/v2/models/%2e%2e/ready", "//v2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, path []byte) {
		r := match(path)
		if r.endpoint == noEndpoint {
			return
		}
		for _, part := range [][]byte{r.model, r.version, r.extra} {
			if bytes.ContainsRune(part, '/') || !bytes.Contains(path, part) {
				t.Fatalf("match(%q) has the part %q", path, part)
			}
		}
		if strings.HasSuffix(string(path), "/") || strings.Contains(string(path), "//") {
			t.Fatalf("match(%q) = %v, want none", path, r.endpoint)
		}
		if name, ok := unescape(r.model); ok && bytes.ContainsRune(name, '%') && !bytes.Contains(bytes.ToLower(path), []byte("%25")) {
			t.Fatalf("unescape(%q) = %q", r.model, name)
		}
	})
}

// FuzzHeaderLength: whatever the header says, the body is cut inside its bounds.
func FuzzHeaderLength(f *testing.F) {
	for _, v := range []string{"0", "-5", "10", "100000", "abc", "", "+3", "9223372036854775808", " 7"} {
		f.Add(v, []byte(addSubJSON))
	}
	e := newFake()
	s, err := New(Options{Engine: e})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value string, body []byte) {
		c := newConn(s, nil)
		c.attach()
		x := c.x
		x.reset()
		x.headerLength, x.hasHeaderLength = []byte(value), true
		x.body, x.length = bytes.NewReader(body), int64(len(body))
		s.infer(x, "add_sub", infer.LatestVersion)
		if x.status == 0 || x.reply == nil {
			t.Fatalf("header length %q with %d bytes: no reply", value, len(body))
		}
		if x.status == 200 && x.reply.Bytes()[0] != '{' || x.status >= 500 {
			t.Fatalf("header length %q answers %d %q", value, x.status, x.reply.Bytes())
		}
		c.reply = x.reply
		c.finished()
	})
}
