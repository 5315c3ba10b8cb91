package httpapi

import "testing"

func TestDeviationsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Deviations() {
		if d.Request == "" || d.Triton == "" || d.Ours == "" || d.Why == "" || d.Triton == d.Ours || seen[d.Request] {
			t.Errorf("incomplete, pointless or repeated row: %+v", d)
		}
		seen[d.Request] = true
	}
}
