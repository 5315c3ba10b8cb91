package python

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The build without CUDA is chosen only if its index can be reached and lists it. Otherwise the output says why not.
func TestBuildWithoutCUDAIsChosen(t *testing.T) {
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/torch/" {
			_, _ = w.Write([]byte(`<a href="torch-2.0%2Bcpu-cp312.whl">`))
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(index.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	const large = "torch==2.0\nnumpy\n"
	for _, tt := range []struct {
		name, page, file string
		cpu              bool
	}{
		{"listed", index.URL + "/torch/", "torch-2.0%2Bcpu", true},
		{"another version", index.URL + "/torch/", "torch-3.0%2Bcpu", false},
		{"no page", index.URL + "/other/", "torch-2.0%2Bcpu", false},
		{"cannot be reached", closed.URL + "/torch/", "torch-2.0%2Bcpu", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Framework{Name: "pytorch", Requirements: large,
				CPU: CPUBuild{Page: tt.page, File: tt.file, Requirement: "torch==2.0+cpu", Index: "https://cpu"}}
			want := large
			if tt.cpu {
				want = "--extra-index-url https://cpu\ntorch==2.0+cpu\nnumpy\n"
			}
			var out strings.Builder
			if got := f.chosen(t.Context(), &out); got != want {
				t.Errorf("chosen = %q; want %q", got, want)
			}
			if strings.Contains(out.String(), "the larger one is installed") == tt.cpu {
				t.Errorf("the output is %q", out.String())
			}
		})
	}
	if got := (Framework{Requirements: large}).chosen(t.Context(), nil); got != large {
		t.Errorf("without such a build, chosen = %q; want %q", got, large)
	}
}
