package python_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// A model that answers after execute has returned goes on to see that its request was cancelled, when the execution is
// over and other requests are executed.
func TestCancellationStaysSeen_D035(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": `
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        [request] = requests
        if pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0] == 0:
            self.request, self.sender = request, request.get_response_sender()
            open(` + strconv.Quote(begun) + `, "w").close()
            return [None]
        seen = [request.is_cancelled(), self.request.is_cancelled(), self.sender.is_cancelled()]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(seen, np.float32))])]
`}).ready()
	q := request("m", map[string][]float32{"IN": {0}})
	defer q.Release()
	if err := r.Infer(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	until(t, "the execution has begun", func() bool { return os.Remove(begun) == nil })
	q.Cancel()
	a := r.one(request("m", map[string][]float32{"IN": {1}}))
	if want := []float32{0, 1, 1}; a.err != nil || !slices.Equal(a.floats("OUT"), want) {
		t.Errorf("%v, %v; want %v", a.floats("OUT"), a.err, want)
	}
}
