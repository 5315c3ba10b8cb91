package perfcmd

import "testing"

func TestStability_F009(t *testing.T) {
	for value, want := range map[string]struct{ least, most float64 }{
		"0": {1e-12, 1e-6}, "5": {5, 5}, // 0 stands for the default
	} {
		o, err := parse([]string{"-m", "m", "-s", value})
		if got := o.measure.Stability; err != nil || got < want.least || got > want.most {
			t.Errorf("-s %s: %g, %v; want %g to %g", value, got, err, want.least, want.most)
		}
	}
}
