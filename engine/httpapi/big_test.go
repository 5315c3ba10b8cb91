package httpapi

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// BenchmarkLargeJSON reads and writes 100,000 random floats, as an image model with JSON clients sees them.
func BenchmarkLargeJSON(b *testing.B) {
	const n = 100_000
	rng := rand.New(rand.NewPCG(1, 2))
	var data []byte
	for range n {
		data = le.AppendUint32(data, floatBits(rng.Float32()))
	}
	t := tensor.Tensor{Name: "x", DataType: tensor.FP32, Shape: []int64{n}, Data: data}
	var pool tensor.Pool
	w := &builder{}
	w.start(&pool, 512)
	if err := encodeData(w, &t); err != nil {
		b.Fatal(err)
	}
	doc := []byte(`{"inputs":[{"name":"x","shape":[` + strconv.Itoa(n) + `],"datatype":"FP32","data":[` + string(w.b) + `]}]}`)
	b.Run("parse", func(b *testing.B) {
		p := &requestParser{pool: &pool}
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
			w.start(&pool, 2*len(data))
			if err := encodeData(w, &t); err != nil {
				b.Fatal(err)
			}
			w.drop()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/float")
	})
}
