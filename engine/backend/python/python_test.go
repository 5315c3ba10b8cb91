package python_test

import (
	"slices"
	"testing"
)

func TestPlainModel(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"inc/config.pbtxt": config(""),
		"inc/1/model.py":   code("y = x + 1", ""),
	}).ready()
	for _, n := range []int{0, 1, 16, 5000, 1 << 20} {
		in := make([]float32, n)
		for i := range in {
			in[i] = float32(i)
		}
		a := r.one(request("inc", map[string][]float32{"IN": in}))
		got := a.floats("OUT")
		if a.err != nil || len(got) != n {
			t.Fatalf("%d floats: %v, %d back", n, a.err, len(got))
		}
		for i, v := range got {
			if v != float32(i)+1 {
				t.Fatalf("%d floats: number %d is %v, want %v", n, i, v, float32(i)+1)
			}
		}
		if s := a.shapes["OUT"]; !slices.Equal(s, []int64{int64(n)}) {
			t.Errorf("%d floats: shape %v", n, s)
		}
	}
}

// A limit of more time than there is means that there is none.
func TestTheLongestStubTimeout_D055(t *testing.T) {
	serve(t, map[string]string{"stub-timeout-seconds": "10000000000"}, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py":   code("y = x", ""),
	}).ready()
}
