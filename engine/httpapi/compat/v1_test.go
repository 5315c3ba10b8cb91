package compat

import (
	"testing"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// Whatever the document holds, inputs have as many bytes as their shapes say.
func FuzzParsePredict(f *testing.F) {
	for _, seed := range []string{`{"instances":[[1,2],[3,4]]}`,
		`{"inputs":{"INPUT0":[[1,2]],"INPUT1":["a",{"b64":"YQ=="}]}}`,
		`{"instances":[{"INPUT1":"x"}],"signature_name":""}`, `{`, ``} {
		f.Add([]byte(seed))
	}
	cfg := &inferencepb.ModelConfig{MaxBatchSize: 4, Input: []*inferencepb.ModelInput{
		{Name: "INPUT0", DataType: inferencepb.DataType_TYPE_INT32, Dims: []int64{2}},
		{Name: "INPUT1", DataType: inferencepb.DataType_TYPE_STRING, Dims: []int64{-1}},
	}}
	f.Fuzz(func(t *testing.T, doc []byte) {
		r := infer.NewDetached()
		defer r.Release()
		if _, err := ParsePredict(r, cfg, doc); err != nil {
			return
		}
		for _, in := range r.Inputs {
			n, err := tensor.Elements(in.Shape)
			if err != nil || in.DataType == tensor.Bytes && tensor.CheckBytes(in.Data, n) != nil ||
				in.DataType != tensor.Bytes && n*int64(in.DataType.Size()) != int64(len(in.Data)) {
				t.Errorf("%q gives %s of shape %v with %d bytes (%v)", doc, in.Name, in.Shape, len(in.Data), err)
			}
		}
	})
}
