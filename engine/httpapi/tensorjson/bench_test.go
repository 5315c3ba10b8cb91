package tensorjson

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// servedModel is the model that answers.
type servedModel struct{}

func (servedModel) Name() string           { return "identity_ort" }
func (servedModel) Version() int64         { return 1 }
func (servedModel) VersionText() string    { return "1" }
func (servedModel) Decoupled() bool        { return false }
func (servedModel) Batched() bool          { return true }
func (servedModel) Labels(string) []string { return nil }

// benchBodies returns requests with 16 floats, as JSON, and as binary data in both directions.
func benchBodies() map[string]string {
	return map[string]string{
		"binary": `{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"FP32",` +
			`"parameters":{"binary_data_size":64}}],` +
			`"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]}` + floats16(),
		"json": oneInput("[1,16]", "FP32", "["+zeroTo15+"]"),
	}
}

func floats16() string {
	var b []byte
	for i := range 16 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(i)))
	}
	return string(b)
}

func BenchmarkParse(b *testing.B) {
	for name, body := range benchBodies() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			op := parseOnce(b, []byte(body))
			for b.Loop() {
				op()
			}
		})
	}
}

// parseOnce returns a function that parses a body with up to 64 bytes of binary tail.
func parseOnce(tb testing.TB, body []byte) func() {
	var pool tensor.Pool
	p := &Parser{Pool: &pool}
	jsonLength := int64(len(body))
	if i := strings.LastIndex(string(body), "}"); i >= 0 {
		jsonLength = int64(i + 1)
	}
	return func() {
		r := infer.New()
		buf := pool.Get(len(body))
		r.Own(buf)
		doc := buf.Bytes()
		copy(doc, body)
		if _, err := p.Infer(r, buf, doc, jsonLength); err != nil {
			tb.Fatal(err)
		}
		r.Release()
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, o := range []Response{{Binary: true}, {}} {
		b.Run(map[bool]string{true: "binary", false: "json"}[o.Binary], func(b *testing.B) {
			b.ReportAllocs()
			op := encodeOnce(b, o)
			for b.Loop() {
				op()
			}
		})
	}
}

// encodeOnce returns a function that encodes 16 floats.
func encodeOnce(tb testing.TB, o Response) func() {
	var pool tensor.Pool
	w := &Builder{}
	r := infer.New()
	r.Served = servedModel{}
	resp := r.NewResponse()
	resp.AddOutput("OUTPUT0", tensor.FP32, []int64{1, 16}, []byte(floats16()), nil)
	return func() {
		w.Start(&pool, 1024)
		if _, err := o.Append(w, r, resp); err != nil {
			tb.Fatal(err)
		}
		w.Finish().Release()
	}
}

// Parsing and encoding allocate nothing.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	for name, body := range benchBodies() {
		if n := testing.AllocsPerRun(200, parseOnce(t, []byte(body))); n > 0 {
			t.Errorf("parsing a %s request allocates %v times, want 0", name, n)
		}
	}
	for _, o := range []Response{{Binary: true}, {}} {
		if n := testing.AllocsPerRun(200, encodeOnce(t, o)); n > 0 {
			t.Errorf("encoding (binary %v) allocates %v times, want 0", o.Binary, n)
		}
	}
}

// BenchmarkLargeJSON reads and writes 100,000 random floats, like an image model with JSON clients.
func BenchmarkLargeJSON(b *testing.B) {
	const n = 100_000
	rng := rand.New(rand.NewPCG(1, 2))
	var data []byte
	for range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(rng.Float32()))
	}
	t := tensor.Tensor{Name: "x", DataType: tensor.FP32, Shape: []int64{n}, Data: data}
	var pool tensor.Pool
	w := &Builder{}
	w.Start(&pool, 512)
	if err := w.Elements(&t); err != nil {
		b.Fatal(err)
	}
	doc := []byte(`{"inputs":[{"name":"x","shape":[` + strconv.Itoa(n) + `],"datatype":"FP32","data":[` +
		string(w.B) + `]}]}`)
	b.Run("parse", func(b *testing.B) {
		p := &Parser{Pool: &pool}
		b.SetBytes(int64(len(doc)))
		for b.Loop() {
			r := infer.New()
			if err := p.parse(r, doc); err != nil {
				b.Fatal(err)
			}
			r.Release()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/float")
	})
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		for b.Loop() {
			w.Start(&pool, 2*len(data))
			if err := w.Elements(&t); err != nil {
				b.Fatal(err)
			}
			w.Drop()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/float")
	})
}
