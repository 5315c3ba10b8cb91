package httpapi

import (
	"testing"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// A visitor of the public page has the priority that the model gives to all.
func TestAVisitorHasNoPriority(t *testing.T) {
	s := serve(t)
	var got []uint64
	s.engine.models["m"] = model("m", tensor.FP32, 1, 0, []int64{-1}, func(r *infer.Request, m *fakeModel) {
		got = append(got, r.Priority)
		identity(r, m)
	})
	body := `{"parameters":{"priority":1},"inputs":[{"name":"INPUT0","shape":[1],"datatype":"FP32","data":[2]}]}`
	for _, page := range []string{"1", "kiosk"} {
		if resp, text := post(t, s, "/v2/models/m/infer", body, "Nereid-Page: "+page); resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
	}
	if len(got) != 2 || got[0] != 1 || got[1] != 0 {
		t.Errorf("priorities %v", got)
	}
}
