package python_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"syscall"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const controls = `
  max_sequence_idle_microseconds: 3600000000
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } }
  control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } }
`

const ports = `max_batch_size: 4
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 } output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 }
instance_group { count: 1 kind: KIND_CPU }
`

// countdown is a model that responds to n with n-1, n-2 … 0, one in each execution.
const countdown = `
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        for r in requests:
            if not pb.get_input_tensor_by_name(r, "READY").as_numpy()[0][0]:
                r.get_response_sender().send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                continue
            key = int(pb.get_input_tensor_by_name(r, "CORRID").as_numpy()[0][0])
            if pb.get_input_tensor_by_name(r, "START").as_numpy()[0][0]:
                self.left[key] = int(pb.get_input_tensor_by_name(r, "INPUT").as_numpy()[0][0])
            self.left[key] -= 1
            n = self.left[key]
            flags = 0 if n > 0 else pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            sender = r.get_response_sender()
            sender.send(pb.InferenceResponse([pb.Tensor("OUTPUT", np.array([[n]], dtype=np.int32))]), flags=flags)
            if n > 0:
                r.set_release_flags(pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
`

// sums is a model whose output is the sum since START, which it keeps by the row of the batch.
const sums = `
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.sums = [0] * 4

    def execute(self, requests):
        out = []
        for row, r in enumerate(requests):
            start, ready, n = (pb.get_input_tensor_by_name(r, k).as_numpy()[0][0] for k in ("START", "READY", "INPUT"))
            if ready:
                assert r.correlation_id() == pb.get_input_tensor_by_name(r, "CORRID").as_numpy()[0][0]
                assert bool(r.flags() & pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) == bool(start)
                self.sums[row] = (0 if start else self.sums[row]) + int(n)
            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT", np.array([[self.sums[row]]], dtype=np.int32))]))
        return out
`

// caller is a model that runs a sequence on the model sums. Its output is the last sum.
const caller = `
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        out = []
        for r in requests:
            n = pb.get_input_tensor_by_name(r, "INPUT")
            for flags in (pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, 0, pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END):
                call = pb.InferenceRequest(model_name="sums", requested_output_names=["OUTPUT"], inputs=[n],
                    correlation_id=4242, flags=flags)
                answer = call.exec()
                if answer.has_error():
                    raise pb.TritonModelException(answer.error().message())
            y = pb.get_output_tensor_by_name(answer, "OUTPUT").as_numpy()
            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT", y)]))
        return out
`

func number(model string, id uint64, flags infer.Flags, n int32) *infer.Request {
	q := infer.New()
	q.ModelName, q.Flags, q.Correlation.Number = model, flags, id
	q.Inputs = append(q.Inputs, tensor.Tensor{Name: "INPUT", DataType: tensor.Int32, Shape: []int64{1, 1},
		Data: binary.LittleEndian.AppendUint32(nil, uint32(n))})
	return q
}

// counted returns the values of a request's responses.
func counted(t *testing.T, r *rig, q *infer.Request) (all []int32) {
	t.Helper()
	for _, a := range r.all(q) {
		if a.err != nil {
			t.Fatal(a.err)
		}
		if out := a.outputs["OUTPUT"]; len(out) == 4 {
			all = append(all, int32(binary.LittleEndian.Uint32(out)))
		}
	}
	return all
}

func TestSequencesOfPythonModels(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"count/config.pbtxt": `backend: "python" model_transaction_policy { decoupled: true }` + ports +
			"sequence_batching { iterative_sequence: true" + controls,
		"count/1/model.py": countdown,
		"oldest/config.pbtxt": `backend: "python" model_transaction_policy { decoupled: true }` + ports +
			"sequence_batching { iterative_sequence: true oldest { max_candidate_sequences: 4 }" + controls,
		"oldest/1/model.py":   countdown,
		"sums/config.pbtxt":   `backend: "python"` + ports + "sequence_batching { " + controls,
		"sums/1/model.py":     sums,
		"caller/config.pbtxt": `backend: "python"` + ports,
		"caller/1/model.py":   caller,
		"state/config.pbtxt": `backend: "python"` + ports +
			`sequence_batching { state { input_name: "A" output_name: "B" data_type: TYPE_INT32 dims: 1 }` + controls,
		"state/1/model.py": sums,
	})
	for _, model := range []string{"count", "oldest"} {
		t.Run("C040 "+model, func(t *testing.T) {
			done := make(chan struct{})
			for n := range int32(4) {
				go func() {
					defer func() { done <- struct{}{} }()
					var want []int32
					for i := n; i >= 0; i-- {
						want = append(want, i)
					}
					if got := counted(t, r, number(model, 0, 0, n+1)); !slices.Equal(got, want) {
						t.Errorf("%d gave %v, want %v", n+1, got, want)
					}
				}()
			}
			for range 4 {
				<-done
			}
		})
	}
	t.Run("C027 rows of a batch", func(t *testing.T) {
		for i, flags := range []infer.Flags{infer.SequenceStart, 0, 0} {
			for id := range uint64(3) {
				want := int32(i+1) * int32(id+5)
				if got := counted(t, r, number("sums", id+1, flags, int32(id+5))); len(got) != 1 || got[0] != want {
					t.Errorf("sequence %d, request %d: %v, want %d", id+1, i, got, want)
				}
			}
		}
	})
	t.Run("D042 calls that are a sequence", func(t *testing.T) {
		if got := counted(t, r, number("caller", 0, 0, 7)); len(got) != 1 || got[0] != 21 {
			t.Errorf("%v, want 21", got)
		}
	})
	t.Run("C036 state is ignored", func(t *testing.T) {
		m, _ := r.Model("state")
		if len(m.Versions) != 1 || m.Versions[0].Reason != "" {
			t.Errorf("%v %v, want no reason", m.Err, m.Versions)
		}
	})
}

// The state of sequences is lost with its process. No such sequence continues as if nothing had happened.
func TestSequencesEndWithTheirProcess(t *testing.T) {
	const dyingModel = `
import os
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        out = []
        for r in requests:
            n = int(pb.get_input_tensor_by_name(r, "INPUT").as_numpy()[0][0])
            if n == 666:
                os._exit(3)
            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT", np.array([[os.getpid()]], dtype=np.int32))]))
        return out
`
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": `backend: "python"` + ports + "sequence_batching { " + controls, "m/1/model.py": dyingModel,
	}).ready()
	tell := func(id uint64, flags infer.Flags, n int32) (int32, error) {
		t.Helper()
		all := r.all(number("m", id, flags, n))
		if len(all) != 1 || all[0].err != nil {
			return 0, all[0].err
		}
		return int32(binary.LittleEndian.Uint32(all[0].outputs["OUTPUT"])), nil
	}
	begin := func(id uint64) int {
		t.Helper()
		pid, err := tell(id, infer.SequenceStart, 0)
		if err != nil {
			t.Fatal(err)
		}
		return int(pid)
	}
	over := func(err error) bool { // at once, or while the request waits for the process
		return err != nil && (strings.Contains(err.Error(), "must specify the START flag") ||
			strings.Contains(err.Error(), "start the sequence again"))
	}
	t.Run("C034 D2 while it executes", func(t *testing.T) {
		begin(1)
		begin(2)
		if _, err := tell(2, 0, 666); status.CodeOf(err) != status.Unavailable {
			t.Errorf("the request that ends it: %v", err)
		}
		for id := range uint64(2) {
			if _, err := tell(id+1, 0, 0); !over(err) {
				t.Errorf("sequence %d goes on: %v", id+1, err)
			}
		}
	})
	t.Run("C034 D2 while it idles", func(t *testing.T) {
		pid := begin(1)
		begin(2)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := tell(1, 0, 0); status.CodeOf(err) != status.Unavailable {
			t.Errorf("the next request: %v", err)
		}
		if _, err := tell(2, 0, 0); !over(err) {
			t.Errorf("the other sequence: %v", err)
		}
		if begin(3) == pid {
			t.Error("the process lives")
		}
		if _, err := tell(3, infer.SequenceEnd, 0); err != nil {
			t.Errorf("a sequence that began after: %v", err)
		}
	})
}
