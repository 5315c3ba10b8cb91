package console_test

import (
	"strings"
	"testing"

	"nereid/app/console/machine"
	"nereid/app/history"
	"nereid/engine"
)

// Nobody looks at the page, and there is no budget: nothing else measures the model.
func TestReadingsFollowAModelThatGrows(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	r.Write("grows/1/takes", "1234")
	r.Write("grows/1/model.onnx", "good growing")
	if err := r.Engine.LoadModel(t.Context(), "grows", engine.LoadParameters{}); err != nil {
		t.Fatal(err)
	}
	monitor := &machine.Monitor{Engine: r.Engine}
	for _, size := range []int{4, 70, 30} {
		r.Write("grows/1/takes", strings.Repeat("x", size))
		got := -1.0
		for _, reading := range monitor.Readings() {
			if reading.Name == history.Memory && reading.Model == "grows" {
				got = reading.Value
			}
		}
		if got != float64(size) {
			t.Errorf("the model takes %v bytes, want %d", got, size)
		}
	}
}
