package residency

import (
	"slices"
	"testing"
)

func TestVictims(t *testing.T) {
	all := []tenant{
		{name: "new", memory: Amount{Host: 1}, used: 9, resting: true},
		{name: "old", memory: Amount{Host: 1}, used: 1, resting: true},
		{name: "pinned", memory: Amount{Host: 1}, used: 0, resting: true, pinned: true},
		{name: "busy", memory: Amount{Host: 1}, used: 0},
		{name: "sequence", memory: Amount{Host: 1}, used: 0, sequence: true},
		{name: "gpu", memory: Amount{0: 1}, used: 0, resting: true},
	}
	for _, tt := range []struct {
		name   string
		short  Amount
		urgent bool
		want   []string
	}{
		{"the least recently used first", Amount{Host: 1}, false, []string{"old", "new"}},
		{"also one that executes requests, if urgent, but none with a sequence", Amount{Host: 1}, true,
			[]string{"busy", "old", "new"}},
		{"only one that holds what is short", Amount{0: 1}, false, []string{"gpu"}},
		{"none", Amount{1: 1}, true, []string{}},
	} {
		if got := victims(all, tt.short, tt.urgent); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
