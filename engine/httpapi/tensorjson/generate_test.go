package tensorjson

import (
	"strings"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// A text that is the id is also the tensor of an input with this name; what is no text cannot be the id.
func TestGenerateIDIsAlsoAnInput_B054(t *testing.T) {
	cfg := func(dt inferencepb.DataType) *inferencepb.ModelConfig {
		return &inferencepb.ModelConfig{Input: []*inferencepb.ModelInput{{Name: "id", DataType: dt, Dims: []int64{1}}}}
	}
	text, number := cfg(inferencepb.DataType_TYPE_STRING), cfg(inferencepb.DataType_TYPE_INT32)
	r := infer.NewDetached()
	defer r.Release()
	if err := (&Parser{Pool: new(tensor.Pool)}).Generate(r, text, []byte(`{"id":"seven"}`)); err != nil {
		t.Fatal(err)
	}
	if r.ID != "seven" || len(r.Inputs) != 1 || string(r.Inputs[0].Data) != "\x05\x00\x00\x00seven" {
		t.Errorf("id %q and inputs %v, want both to be the text", r.ID, r.Inputs)
	}
	for doc, cfg := range map[string]*inferencepb.ModelConfig{`{"id":["seven"]}`: text, `{"id":7}`: number} {
		r := infer.NewDetached()
		defer r.Release()
		if err := (&Parser{Pool: new(tensor.Pool)}).Generate(r, cfg, []byte(doc)); err == nil ||
			!strings.Contains(err.Error(), "Unable to parse 'id'") {
			t.Errorf("%s: error %v", doc, err)
		}
	}
}

// Whatever the document holds, inputs have as many bytes as their shapes say.
func FuzzParseGenerate(f *testing.F) {
	for _, seed := range []string{
		`{"INPUT0":[1,2],"id":"7","parameters":{"p":1,"q":"x","r":true,"s":0.5}}`, `{"INPUT0":[[1],[2]]}`,
		`{"INPUT1":"a"}`, `{"INPUT1":["a",["b"]]}`, `{`, ``, `[[[[`,
	} {
		f.Add([]byte(seed))
	}
	cfg := &inferencepb.ModelConfig{MaxBatchSize: 4, Input: []*inferencepb.ModelInput{
		{Name: "INPUT0", DataType: inferencepb.DataType_TYPE_INT32, Dims: []int64{2}},
		{Name: "INPUT1", DataType: inferencepb.DataType_TYPE_STRING, Dims: []int64{-1, 0, -1}},
		{Name: "INPUT2", DataType: inferencepb.DataType_TYPE_FP64, Dims: []int64{-1}},
		{Name: "id", DataType: inferencepb.DataType_TYPE_STRING, Dims: []int64{1}},
	}}
	var pool tensor.Pool
	f.Fuzz(func(t *testing.T, doc []byte) {
		r := infer.NewDetached()
		defer r.Release()
		p := &Parser{Pool: &pool}
		if err := p.Generate(r, cfg, doc); err != nil {
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
