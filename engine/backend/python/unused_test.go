package python_test

import (
	"strings"
	"testing"
)

// What a Python model's configuration asks for in vain is in the log, once for each version that is loaded.
func TestUnusedFieldsAreLogged(t *testing.T) {
	const says = `fields="batch_input, batch_output, sequence_batching.state"`
	extras := `max_batch_size: 4
batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "COUNT" data_type: TYPE_FP32 source_input: "IN" } ]
batch_output [ { target_name: "OUT" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "IN" } ]
sequence_batching { state [ { input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [ 1 ] } ] }`
	r := serve(t, nil, map[string]string{
		"extras/config.pbtxt": config(extras), "extras/1/model.py": code("y = x", ""),
		"plain/config.pbtxt": config(""), "plain/1/model.py": code("y = x", ""),
	}).ready()
	r.stop()
	log := r.log.String()
	if n := strings.Count(log, "the code of a Python model gets nothing"); n != 1 {
		t.Errorf("%d lines of fields without effect, want 1", n)
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "gets nothing") && !(strings.Contains(line, says) && strings.Contains(line, "WARN") &&
			strings.Contains(line, "model=extras")) {
			t.Errorf("the line is %q", line)
		}
	}
}
