package process

import (
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	got := environment([]string{"PATH=/bin", "A=1", "AB=2", "=odd"}, []string{"A=3", "PATH=/env/bin:/bin", "NEW="})
	if want := []string{"AB=2", "=odd", "A=3", "PATH=/env/bin:/bin", "NEW="}; !slices.Equal(got, want) {
		t.Errorf("environment = %q, want %q", got, want)
	}
}
