//go:build !race

// The race detector makes sync.Pool forget.

package requests

import "testing"

func TestRecordAllocs(t *testing.T) {
	l := New()
	run(l, "a request", 200, "", "")
	if n := testing.AllocsPerRun(200, func() { run(l, "a request", 200, "", "") }); n > 0 {
		t.Errorf("%v allocations for a request, want none", n)
	}
}
