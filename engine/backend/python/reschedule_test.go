package python_test

import (
	"slices"
	"strings"
	"testing"

	"nereid/engine/infer"
)

// steps is a model that reschedules a request until it was executed as often as its input says. Then its output is that
// number.
const steps = `
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.seen = {}

    def execute(self, requests):
        responses = []
        for r in requests:
            if not pb.get_input_tensor_by_name(r, "READY").as_numpy()[0][0]:
                responses.append(pb.InferenceResponse([pb.Tensor("OUTPUT", np.zeros((1, 1), np.int32))]))
                continue
            key, want = r.request_id(), int(pb.get_input_tensor_by_name(r, "INPUT").as_numpy()[0][0])
            self.seen[key] = self.seen.get(key, 0) + 1
            if want < 0:  # an answer beside the flag
                r.set_release_flags(pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            elif self.seen[key] < want:
                r.set_release_flags(pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                responses.append(None)
                continue
            responses.append(pb.InferenceResponse([pb.Tensor("OUTPUT", np.array([[self.seen.pop(key)]], np.int32))]))
        return responses
`

// once is a model without sequences that asks to reschedule.
const rescheduleOnce = `
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            r.set_release_flags(pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        return [None] * len(requests)
`

func TestReschedule_D045(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"steps/config.pbtxt": `backend: "python"` + ports + "sequence_batching { iterative_sequence: true" + controls,
		"steps/1/model.py":   steps,
		"plain/config.pbtxt": `backend: "python"` + ports, "plain/1/model.py": rescheduleOnce,
	}).ready()
	t.Run("D045 a request comes again until it is answered, beside others", func(t *testing.T) {
		var all []*infer.Request
		for i := range 6 {
			q := number("steps", uint64(100+i), infer.SequenceStart|infer.SequenceEnd, int32(i+1))
			q.ID = string(rune('a' + i))
			if err := r.Infer(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			all = append(all, q)
		}
		for i, q := range all {
			resp, err := q.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			a := read(resp)
			if a.err != nil || !a.final || !slices.Equal(a.outputs["OUTPUT"], []byte{byte(i + 1), 0, 0, 0}) {
				t.Errorf("request %d was answered %v, %v; want after %d executions", i, a.outputs["OUTPUT"], a.err, i+1)
			}
			q.Release()
		}
		s, err := r.ModelStatistics("steps", -1)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.GetModelStats()[0]; got.GetInferenceStats().GetSuccess().GetCount() != 6 ||
			got.GetExecutionCount() < 6 {
			t.Errorf("%d successes and %d executions are counted; want 6, and at least as many as the longest took",
				got.GetInferenceStats().GetSuccess().GetCount(), got.GetExecutionCount())
		}
	})
	t.Run("D045 an answer and the flag exclude each other", func(t *testing.T) {
		a := r.one(number("steps", 7, infer.SequenceStart|infer.SequenceEnd, -1))
		if a.err == nil || !strings.Contains(a.err.Error(),
			"Expected a None object in the execute function return list for reschduled request") {
			t.Errorf("answer %v", a.err)
		}
	})
	t.Run("D045 without an iterative sequence there is nothing to come again in", func(t *testing.T) {
		a := r.one(number("plain", 0, 0, 1))
		if a.err == nil || !strings.Contains(a.err.Error(),
			"TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, but model 'plain' has no iterative_sequence") {
			t.Errorf("answer %v", a.err)
		}
	})
}
