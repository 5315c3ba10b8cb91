package deviation

import (
	"fmt"
	"testing"
)

func TestRowsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for i, d := range All() {
		if want := fmt.Sprintf("DV%02d", i+1); d.ID != want {
			t.Errorf("row %d has the id %q, want %q: ids are given in order and never again", i, d.ID, want)
		}
		if d.Request == "" || d.Triton == "" || d.Ours == "" || d.Why == "" || d.Triton == d.Ours || seen[d.Request] {
			t.Errorf("incomplete, pointless or repeated row: %+v", d)
		}
		switch d.Protocol {
		case "HTTP", "gRPC", "both", "server":
		default:
			t.Errorf("%s: unknown protocol %q", d.ID, d.Protocol)
		}
		seen[d.Request] = true
	}
}
