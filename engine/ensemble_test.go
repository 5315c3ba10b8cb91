package engine_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/trace"
)

const addSubConfig = `backend: "add_sub"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: 4 }
input { name: "INPUT1" data_type: TYPE_INT32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 4 }
output { name: "OUTPUT1" data_type: TYPE_INT32 dims: 4 }
`

const wordConfig = `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 4 }
`

// diamondConfig computes sum = A+B and diff = A-B at the same time as copy = A. Then OUT = (sum)+(diff) = 2A and
// REST = copy-diff = B.
const diamondConfig = `platform: "ensemble"
max_batch_size: 8
input { name: "A" data_type: TYPE_INT32 dims: 4 }
input { name: "B" data_type: TYPE_INT32 dims: 4 }
output { name: "OUT" data_type: TYPE_INT32 dims: 4 }
output { name: "REST" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling {
  step { model_name: "word" model_version: -1 input_map { key: "INPUT0" value: "A" }
     output_map { key: "OUTPUT0" value: "copy" } }
  step { model_name: "addsub" model_version: 1
    input_map { key: "INPUT0" value: "A" } input_map { key: "INPUT1" value: "B" }
    output_map { key: "OUTPUT0" value: "sum" } output_map { key: "OUTPUT1" value: "diff" } }
  step { model_name: "addsub" model_version: -1
    input_map { key: "INPUT0" value: "sum" } input_map { key: "INPUT1" value: "diff" }
    output_map { key: "OUTPUT0" value: "OUT" } }
  step { model_name: "addsub" model_version: -1
    input_map { key: "INPUT0" value: "copy" } input_map { key: "INPUT1" value: "diff" }
    output_map { key: "OUTPUT1" value: "REST" } }
}
`

const squareConfig = `backend: "square"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
`

const oneConfig = `backend: "add_sub"
input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }
input { name: "INPUT1" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT1" data_type: TYPE_INT32 dims: 1 }
`

func streamConfig(decoupled bool, more string) string {
	return fmt.Sprintf(`platform: "ensemble"
model_transaction_policy { decoupled: %v }
input { name: "N" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling {
  step { model_name: "square" model_version: -1 input_map { key: "IN" value: "N" }
     output_map { key: "OUT" value: "each" } }
  step { model_name: "one" model_version: -1
    input_map { key: "INPUT0" value: "each" } input_map { key: "INPUT1" value: "N" }
     output_map { key: "OUTPUT0" value: "OUT" } }
  %s
}
`, decoupled, more)
}

func ensembles(t testing.TB) string {
	root := t.TempDir()
	for name, cfg := range map[string]string{
		"addsub": addSubConfig, "word": wordConfig, "diamond": diamondConfig, "square": squareConfig, "one": oneConfig,
		"stream": streamConfig(true, ""), "single": streamConfig(false, ""),
		"loose": strings.Replace(streamConfig(true, ""), "dims: 1", "dims: -1", 1), "outer": outerConfig,
	} {
		write(t, root+"/"+name+"/config.pbtxt", cfg)
		write(t, root+"/"+name+"/1/.keep", "")
	}
	return root
}

// outerConfig runs an ensemble as its step.
const outerConfig = `platform: "ensemble"
max_batch_size: 4
input { name: "X" data_type: TYPE_INT32 dims: 4 }
output { name: "Y" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling {
  step { model_name: "diamond" model_version: -1 input_map { key: "A" value: "X" } input_map { key: "B" value: "X" }
     output_map { key: "OUT" value: "Y" } }
}
`

func words(n ...int32) []byte {
	var b []byte
	for _, v := range n {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func numbers(b []byte) (n []int32) {
	for ; len(b) >= 4; b = b[4:] {
		n = append(n, int32(binary.LittleEndian.Uint32(b)))
	}
	return n
}

func diamond(model string, rows int, inputs ...string) *infer.Request {
	r := infer.New()
	r.ModelName = model
	for k, name := range inputs {
		var data []byte
		for i := range rows * 4 {
			data = append(data, words(int32((k+1)*100+i))...)
		}
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: name, DataType: tensor.Int32, Shape: []int64{int64(rows), 4},
			Data: data})
	}
	return r
}

// all reads the responses up to the final one.
func all(t *testing.T, e *engine.Engine, r *infer.Request) (outs []map[string][]int32, err error) {
	t.Helper()
	if err := e.Infer(t.Context(), r); err != nil {
		return nil, err
	}
	for {
		resp, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if resp.Err != nil {
			return outs, resp.Err
		}
		if len(resp.Outputs) > 0 {
			out := map[string][]int32{}
			for _, o := range resp.Outputs {
				out[o.Name] = numbers(o.Data)
			}
			outs = append(outs, out)
		}
		final := resp.Final
		resp.Release()
		if final {
			return outs, nil
		}
	}
}

func TestEnsemble(t *testing.T) {
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{ensembles(t)}},
	})
	if failed := e.StartFailures(); len(failed) > 0 {
		t.Fatal(failed)
	}
	n := func(v int32) *infer.Request {
		r := infer.New()
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "N", DataType: tensor.Int32, Shape: []int64{1}, Data: words(v)})
		return r
	}
	t.Run("C043 D072 branches meet again and the rows stay together", func(t *testing.T) {
		r := diamond("diamond", 2, "A", "B")
		defer r.Release()
		outs, err := all(t, e, r)
		if err != nil || len(outs) != 1 {
			t.Fatalf("%v, %v; want one response", outs, err)
		}
		if a := numbers(r.Inputs[0].Data); outs[0]["OUT"][7] != 2*a[7] || len(outs[0]["OUT"]) != 8 {
			t.Errorf("OUT = %v, want twice %v", outs[0]["OUT"], a)
		}
		if b := numbers(r.Inputs[1].Data); !slices.Equal(outs[0]["REST"], b) {
			t.Errorf("REST = %v, want %v", outs[0]["REST"], b)
		}
		if len(r.Steps) != 4 {
			t.Errorf("the record has %d steps, want 4: %v", len(r.Steps), r.Steps)
		}
		for _, s := range r.Steps {
			if s.Finished.Sub(s.Arrived) <= 0 || s.Version != 1 {
				t.Errorf("step %+v has no times or the wrong version", s)
			}
		}
	})
	t.Run("E041 the traces of the steps have that of the ensemble as their parent", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "trace.json")
		tr, err := trace.New(trace.Options{Settings: trace.Settings{Level: trace.Timestamps, Rate: 1, Count: -1,
			File: file, Mode: trace.ModeTriton}})
		if err != nil {
			t.Fatal(err)
		}
		r := diamond("outer", 1, "X")
		r.ID = "r7"
		root := tr.Sample("outer", trace.Parent{})
		r.Trace = root
		if _, err := all(t, e, r); err != nil {
			t.Error(err)
		}
		r.Release()
		root.End()
		if err := tr.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var elements []struct {
			ID        uint64
			Parent    uint64 `json:"parent_id"`
			Model     string `json:"model_name"`
			Version   int64  `json:"model_version"`
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal(text, &elements); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		names, parents := map[uint64]string{}, map[uint64]uint64{}
		for _, el := range elements {
			if el.Model != "" {
				names[el.ID], parents[el.ID] = el.Model, el.Parent
				if el.Version != 1 || el.RequestID != "r7" {
					t.Errorf("%s: version %d, request id %q; want 1 and r7", el.Model, el.Version, el.RequestID)
				}
			}
		}
		var got []string
		for id, name := range names {
			got = append(got, names[parents[id]]+">"+name)
		}
		slices.Sort(got)
		if want := []string{">outer", "diamond>addsub", "diamond>addsub", "outer>diamond"}; !slices.Equal(got, want) {
			t.Errorf("parents %v, want %v in %s", got, want, text)
		}
	})
	t.Run("C043 only the steps that the wanted outputs need run", func(t *testing.T) {
		r := diamond("diamond", 1, "A", "B")
		defer r.Release()
		r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: "OUT"})
		outs, err := all(t, e, r)
		if err != nil || len(outs) != 1 || len(outs[0]) != 1 {
			t.Fatalf("%v, %v; want OUT alone", outs, err)
		}
		if len(r.Steps) != 2 {
			t.Errorf("ran %v, want two steps of addsub", r.Steps)
		}
	})
	t.Run("an ensemble is a step of another", func(t *testing.T) {
		r := diamond("outer", 1, "X")
		defer r.Release()
		outs, err := all(t, e, r)
		if err != nil || len(outs) != 1 || outs[0]["Y"][0] != 200 {
			t.Fatalf("%v, %v; want twice the input", outs, err)
		}
	})
	t.Run("C048 the following steps run for each response of a decoupled step, in order", func(t *testing.T) {
		r := n(40)
		defer r.Release()
		r.ModelName = "stream"
		outs, err := all(t, e, r)
		if err != nil || len(outs) != 40 {
			t.Fatalf("%d responses, %v; want 40", len(outs), err)
		}
		for i, out := range outs {
			if out["OUT"][0] != 80 {
				t.Errorf("response %d is %v, want 80", i, out)
			}
		}
	})
	t.Run("C048 a decoupled step without responses gives the ensemble none", func(t *testing.T) {
		r := n(0)
		defer r.Release()
		r.ModelName = "stream"
		if outs, err := all(t, e, r); err != nil || len(outs) != 0 {
			t.Fatalf("%v, %v; want only the empty final response", outs, err)
		}
	})
	t.Run("C048 an ensemble with a decoupled step is decoupled, whatever its configuration says", func(t *testing.T) {
		for _, want := range []int32{0, 1, 3} {
			r := n(want)
			r.ModelName = "single"
			if outs, err := all(t, e, r); err != nil || len(outs) != int(want) {
				t.Errorf("n=%d: %v, %v; want as many responses", want, outs, err)
			}
			r.Release()
		}
		for name, want := range map[string]bool{"single": true, "stream": true, "diamond": false} {
			cfg, err := e.ModelConfig(name, infer.LatestVersion)
			if err != nil || cfg.GetModelTransactionPolicy() == nil ||
				cfg.GetModelTransactionPolicy().GetDecoupled() != want {
				t.Errorf("policy of %s: %v, %v; want decoupled: %v", name, cfg.GetModelTransactionPolicy(), err, want)
			}
		}
	})
	t.Run("C045 every step gets the parameters of the request; the response has the sequence parameters",
		func(t *testing.T) {
			r := diamond("diamond", 1, "A", "B")
			defer r.Release()
			r.ID = "seven"
			r.Correlation = infer.CorrelationID{Number: 9}
			r.Flags = infer.SequenceStart
			if err := e.Infer(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			resp, err := r.Next(t.Context())
			if err != nil || resp.Err != nil {
				t.Fatal(err, resp.Err)
			}
			defer resp.Release()
			want := []infer.Parameter{{Name: "sequence_id", Kind: infer.IntParameter, Int: 9},
				{Name: "sequence_start", Kind: infer.BoolParameter, Bool: true},
				{Name: "sequence_end", Kind: infer.BoolParameter}}
			if !slices.Equal(resp.Parameters, want) {
				t.Errorf("parameters %v, want %v", resp.Parameters, want)
			}
		})
	t.Run("an error of a step names the ensemble", func(t *testing.T) {
		r := infer.New()
		defer r.Release()
		r.ModelName = "loose"
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "N", DataType: tensor.Int32, Shape: []int64{2},
			Data: words(1, 2)})
		if _, err := all(t, e, r); err == nil || !strings.HasPrefix(err.Error(), "in ensemble 'loose', ") ||
			!strings.Contains(err.Error(), "unexpected shape for input 'IN'") {
			t.Errorf("got %v", err)
		}
	})
}

// optionalConfig returns INPUT0 and INPUT1, both of which are optional.
const optionalConfig = `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: 4 optional: true }
input { name: "INPUT1" data_type: TYPE_INT32 dims: 4 optional: true }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 4 }
output { name: "OUTPUT1" data_type: TYPE_INT32 dims: 4 }
dynamic_batching { }
`

// optionalEnsemble runs A and B through two models with optional inputs, one behind the other.
const optionalEnsemble = `platform: "ensemble"
max_batch_size: 8
input { name: "A" data_type: TYPE_INT32 dims: 4 optional: true }
input { name: "B" data_type: TYPE_INT32 dims: 4 optional: true }
output { name: "X" data_type: TYPE_INT32 dims: 4 }
output { name: "Y" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling {
  step { model_name: "both" model_version: -1 input_map { key: "INPUT0" value: "A" }
     output_map { key: "OUTPUT0" value: "a" } }
  step { model_name: "both" model_version: -1
    input_map { key: "INPUT0" value: "a" } input_map { key: "INPUT1" value: "B" }
    output_map { key: "OUTPUT0" value: "X" } output_map { key: "OUTPUT1" value: "Y" } }
}
`

func TestEnsembleOptionalInputs_C047(t *testing.T) {
	root := t.TempDir()
	for name, cfg := range map[string]string{
		"both": optionalConfig, "word": wordConfig, "optional": optionalEnsemble,
		// A required input of a model may be an optional tensor of the ensemble.
		"strict": strings.Replace(optionalEnsemble, `model_name: "both" model_version: -1 input_map`,
			`model_name: "word" model_version: -1 input_map`, 1),
	} {
		write(t, root+"/"+name+"/config.pbtxt", cfg)
		write(t, root+"/"+name+"/1/.keep", "")
	}
	e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root}}})
	if failed := errors.Join(e.StartFailures()...); failed != nil {
		t.Fatal(failed)
	}
	for _, tt := range []struct {
		name    string
		model   string // "": optional
		inputs  []string
		outputs []string
		want    string
		err     string
	}{
		{name: "C047 both given", inputs: []string{"A", "B"}, want: "X 100, Y 200"},
		{name: "C047 without B; the output that needs it is not requested", inputs: []string{"A"},
			outputs: []string{"X"},
			want:    "X 100"},
		{name: "C047 without B; the step gets no input and sends zeros", inputs: []string{"A"}, want: "X 100, Y 0"},
		{name: "C047 without B; only the output that needs it is requested", inputs: []string{"A"},
			outputs: []string{"Y"}, want: "Y 0"},
		{name: "C047 B alone; the first step sends zeros", inputs: []string{"B"}, want: "X 0, Y 100"},
		{name: "C047 a step needs the input", model: "strict", inputs: []string{"B"},
			err: "in ensemble 'strict', [request id: <id_unknown>] expected 1 inputs but got 0 inputs for model"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := diamond(cmp.Or(tt.model, "optional"), 1, tt.inputs...)
			defer r.Release()
			for _, name := range tt.outputs {
				r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: name})
			}
			outs, err := all(t, e, r)
			var got []string
			for _, out := range outs {
				for _, name := range slices.Sorted(maps.Keys(out)) {
					got = append(got, fmt.Sprint(name, " ", out[name][0]))
				}
			}
			if s := strings.Join(got, ", "); s != tt.want || (err == nil) != (tt.err == "") || err != nil &&
				!strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s, %v; want %s, %q", s, err, tt.want, tt.err)
			}
		})
	}
}

func TestEnsembleStatistics(t *testing.T) {
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{ensembles(t)}},
	})
	t.Run("C046 the ensemble and its steps have separate statistics", func(t *testing.T) {
		for range 3 {
			r := diamond("diamond", 2, "A", "B")
			if _, err := all(t, e, r); err != nil {
				t.Fatal(err)
			}
			r.Release()
		}
		for name, want := range map[string]uint64{"diamond": 3, "word": 3, "addsub": 9} {
			s, err := e.ModelStatistics(name, -1)
			if err != nil {
				t.Fatal(err)
			}
			got := s.GetModelStats()[0]
			if got.GetInferenceStats().GetSuccess().GetCount() != want || got.GetInferenceCount() != 2*want {
				t.Errorf("%s: %d requests of %d rows, want %d of %d", name,
					got.GetInferenceStats().GetSuccess().GetCount(),
					got.GetInferenceCount(), want, 2*want)
			}
		}
		if p := e.Snapshots(nil); slices.ContainsFunc(p, func(s stats.Snapshot) bool { return s.Pending != 0 }) {
			t.Errorf("requests are pending when none is: %v", p)
		}
	})
}

// A step's model rejects a request, and counts that. The ensemble counts the failure with the reason OTHER, as Triton.
func TestEnsembleOfARejectedStepFailsForAnotherReason_E002(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/slow/config.pbtxt", wordConfig+`
parameters { key: "execute_delay_ms" value { string_value: "3600000" } }
dynamic_batching { preferred_batch_size: 1 default_queue_policy { default_timeout_microseconds: 1 } }
`)
	write(t, root+"/slow/1/.keep", "")
	write(t, root+"/ens/config.pbtxt", `platform: "ensemble"
max_batch_size: 8
input { name: "A" data_type: TYPE_INT32 dims: 4 }
output { name: "X" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling { step { model_name: "slow" model_version: -1 input_map { key: "INPUT0" value: "A" }
  output_map { key: "OUTPUT0" value: "X" } } }
`)
	write(t, root+"/ens/1/.keep", "")
	e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root}}})
	failed := make(chan error, 8)
	for range cap(failed) { // one of them executes for an hour; others wait too long behind it
		r := diamond("ens", 1, "A")
		defer r.Release()
		defer r.Cancel()
		if err := e.Infer(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		r.Retain()
		go func() {
			defer r.Release()
			resp, err := r.Next(t.Context())
			if err == nil {
				err = resp.Err
				resp.Release()
			}
			failed <- err
		}()
	}
	if err := <-failed; status.CodeOf(err) != status.Unavailable {
		t.Fatalf("failed with %v, want a rejection", err)
	}
	for _, s := range e.Snapshots(nil) {
		other, rejected := s.Failures[stats.Other] > 0, s.Failures[stats.Rejected] > 0
		if inEnsemble := s.Model == "ens"; other != inEnsemble || rejected == inEnsemble {
			t.Errorf("failures of %s by reason: %v", s.Model, s.Failures)
		}
	}
}

func TestEnsembleUnderLoad_I010(t *testing.T) {
	root := ensembles(t)
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}},
		Mode:         engine.ModeExplicit, StartupModels: []string{"*"},
	})
	t.Run("C049 every caller gets its own rows during cancellations and reloads of a step", func(t *testing.T) {
		var wg sync.WaitGroup
		for c := range 16 {
			wg.Go(func() {
				for i := range 60 {
					r := diamond("diamond", 1, "A", "B")
					for k := range r.Inputs[0].Data {
						r.Inputs[0].Data[k] = byte(c)
					}
					want := 2 * numbers(r.Inputs[0].Data)[0]
					if i%7 == 3 {
						go r.Retain().Cancel()
					}
					outs, err := all(t, e, r)
					switch {
					case err != nil && (i%7 != 3 || status.CodeOf(err) != status.Cancelled):
						t.Errorf("client %d: %v", c, err)
					case err == nil && (len(outs) != 1 || outs[0]["OUT"][3] != want):
						t.Errorf("client %d: %v, want %d", c, outs, want)
					}
					if i%7 != 3 {
						r.Release()
					}
				}
			})
		}
		for i := range 10 {
			write(t, root+"/addsub/1/changed", fmt.Sprint(i))
			if err := e.LoadModel(t.Context(), "addsub", engine.LoadParameters{}); err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
	})
}

func TestCancelledEnsembleRequestsEnd_I010(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/wait/config.pbtxt", `backend: "repeat"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
input { name: "DELAY" data_type: TYPE_UINT32 dims: -1 }
input { name: "WAIT" data_type: TYPE_UINT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
output { name: "IDX" data_type: TYPE_UINT32 dims: 1 }
`)
	write(t, root+"/wait/1/.keep", "")
	write(t, root+"/ens/config.pbtxt", `platform: "ensemble"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
input { name: "DELAY" data_type: TYPE_UINT32 dims: -1 }
input { name: "WAIT" data_type: TYPE_UINT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling {
  max_inflight_requests: 1
  step { model_name: "wait" model_version: -1
    input_map { key: "IN" value: "IN" } input_map { key: "DELAY" value: "DELAY" }
     input_map { key: "WAIT" value: "WAIT" }
    output_map { key: "OUT" value: "OUT" } }
}
`)
	write(t, root+"/ens/1/.keep", "")
	e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root}}})
	ask := func() *infer.Request {
		r := infer.New()
		r.ModelName = "ens"
		r.Inputs = append(r.Inputs,
			tensor.Tensor{Name: "IN", DataType: tensor.Int32, Shape: []int64{2}, Data: words(1, 2)},
			tensor.Tensor{Name: "DELAY", DataType: tensor.Uint32, Shape: []int64{2}, Data: words(0, 1_000_000)},
			tensor.Tensor{Name: "WAIT", DataType: tensor.Uint32, Shape: []int64{1}, Data: words(0)})
		return r
	}
	t.Run("C044 C049 a request that waits for a place, and one that runs, end when they are cancelled",
		func(t *testing.T) {
			first, second := ask(), ask()
			defer first.Release()
			defer second.Release()
			if err := e.Infer(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			resp, err := first.Next(t.Context()) // it runs, and would for a quarter of an hour
			if err != nil || resp.Final {
				t.Fatal(err, resp)
			}
			resp.Release()
			if err := e.Infer(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			for range 10_000 { // enough for its first response, if it ran
				runtime.Gosched()
			}
			if resp := second.Poll(); resp != nil {
				t.Errorf("%v, %v: the second runs beside the first", resp, resp.Err)
				resp.Release()
			}
			for _, r := range []*infer.Request{second, first} {
				r.Cancel()
				resp, err := r.Next(t.Context())
				if err != nil || status.CodeOf(resp.Err) != status.Cancelled || !resp.Final {
					t.Fatalf("%v, %v; want CANCELLED at once", err, resp)
				}
				resp.Release()
			}
			third := ask()
			defer third.Release()
			if err := e.Infer(t.Context(), third); err != nil {
				t.Fatal(err)
			}
			resp, err = third.Next(t.Context())
			if err != nil || resp.Err != nil {
				t.Fatalf("%v, %v; want the place that the cancelled ones gave back", err, resp)
			}
			resp.Release()
			third.Cancel()
		})
}

func TestEnsembleFollowsItsSteps_I010(t *testing.T) {
	root := ensembles(t)
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}},
		Mode:         engine.ModeExplicit,
	})
	ready := func(name string, want bool) {
		t.Helper()
		if ok, _ := e.ModelReady(name, -1); ok != want {
			t.Errorf("%s ready = %v, want %v\n%v", name, ok, want, e.RepositoryIndex(false))
		}
	}
	load := func(name string) error { return e.LoadModel(t.Context(), name, engine.LoadParameters{}) }
	unload := func(name string, dependents bool) {
		t.Helper()
		if err := e.UnloadModel(t.Context(), name, dependents); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("A069 loading an ensemble loads its steps, theirs too", func(t *testing.T) {
		if err := load("outer"); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{"outer": true, "diamond": true, "addsub": true, "word": true,
			"square": false} {
			ready(name, want)
		}
	})
	t.Run("A069 without a step the ensemble is not ready, with the reason; with it again it is", func(t *testing.T) {
		unload("word", false)
		ready("diamond", false)
		ready("outer", false)
		m, _ := e.Model("diamond")
		if got := m.Versions[0].Reason; !strings.Contains(got,
			"ensemble 'diamond' depends on 'word' which has no loaded version") {
			t.Errorf("reason %q", got)
		}
		if err := load("word"); err != nil {
			t.Fatal(err)
		}
		ready("diamond", true)
		ready("outer", true)
	})
	t.Run("A069 a step that does not fit any more takes the ensemble out of service", func(t *testing.T) {
		write(t, root+"/word/config.pbtxt", strings.ReplaceAll(wordConfig, "TYPE_INT32", "TYPE_FP32"))
		if err := load("word"); err != nil {
			t.Fatal(err)
		}
		ready("word", true)
		ready("diamond", false)
		m, _ := e.Model("diamond")
		if got := m.Versions[0].Reason; !strings.Contains(got, "inconsistent data type") {
			t.Errorf("reason %q", got)
		}
		write(t, root+"/word/config.pbtxt", wordConfig)
		if err := load("word"); err != nil {
			t.Fatal(err)
		}
		ready("outer", true)
	})
	t.Run("A069 loading an ensemble that has not changed loads the steps that have", func(t *testing.T) {
		write(t, root+"/word/config.pbtxt", strings.Replace(wordConfig, "max_batch_size: 8", "max_batch_size: 16", 1))
		if err := load("outer"); err != nil { // two levels above
			t.Fatal(err)
		}
		if cfg, _ := e.ModelConfig("word", -1); cfg.GetMaxBatchSize() != 16 {
			t.Errorf("word has the batch size %d, want 16", cfg.GetMaxBatchSize())
		}
		write(t, root+"/word/config.pbtxt", strings.ReplaceAll(wordConfig, "TYPE_INT32", "TYPE_FP32"))
		if err := load("diamond"); err != nil {
			t.Fatal(err)
		}
		ready("diamond", false) // a step no longer fits
		write(t, root+"/word/config.pbtxt", wordConfig)
		if err := load("diamond"); err != nil {
			t.Fatal(err)
		}
		ready("outer", true)
	})
	t.Run("A067 unload_dependents unloads the steps that no other ensemble needs", func(t *testing.T) {
		if err := load("single"); err != nil {
			t.Fatal(err)
		}
		unload("single", true)
		ready("square", false)
		unload("diamond", false)
		ready("addsub", true)
		unload("outer", true)
		ready("addsub", true) // diamond had left before
	})
	t.Run("A067 unload_dependents leaves a step that was loaded by its name", func(t *testing.T) {
		for _, name := range []string{"one", "single"} {
			if err := load(name); err != nil {
				t.Fatal(err)
			}
		}
		unload("single", true)
		ready("square", false)
		ready("one", true)
		unload("one", false)
		if err := load("single"); err != nil {
			t.Fatal(err)
		}
		unload("single", true)
		ready("one", false) // the unload has ended what was asked before
	})
	t.Run("a broken step is named in the failure", func(t *testing.T) {
		write(t, root+"/word/config.pbtxt", "backend: ")
		unload("word", false)
		err := load("diamond")
		if err == nil || !strings.Contains(err.Error(), "depends on 'word' which has no loaded version") {
			t.Errorf("got %v", err)
		}
		write(t, root+"/word/config.pbtxt", wordConfig)
		if err := load("diamond"); err != nil {
			t.Error(err)
		}
	})
	t.Run("A068 an ensemble that failed does not load the model of its step again after an unload", func(t *testing.T) {
		cfg := strings.Replace(diamondConfig, `"addsub" model_version: 1`, `"addsub" model_version: 7`, 1)
		write(t, root+"/seven/config.pbtxt", cfg)
		write(t, root+"/seven/1/.keep", "")
		if err := load("word"); err != nil {
			t.Fatal(err)
		}
		if err := load("seven"); err == nil {
			t.Fatal("a version that is not there was found")
		}
		unload("word", false)
		ready("word", false)
		unload("seven", true)
	})
	t.Run("B19 a cycle is refused", func(t *testing.T) {
		a := strings.ReplaceAll(outerConfig, `"diamond"`, `"b"`)
		a = strings.ReplaceAll(a, `"A"`, `"X"`)
		a = strings.ReplaceAll(a, `input_map { key: "B" value: "X" }`, "")
		a = strings.ReplaceAll(a, `"OUT"`, `"Y"`)
		write(t, root+"/a/config.pbtxt", a)
		write(t, root+"/a/1/.keep", "")
		write(t, root+"/b/config.pbtxt", strings.ReplaceAll(a, `"b"`, `"a"`))
		write(t, root+"/b/1/.keep", "")
		if err := load("a"); err == nil || !strings.Contains(err.Error(),
			"circular dependency between ensembles: a -> b -> a") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("B19 steps that do not fit are refused with the tensor", func(t *testing.T) {
		for name, tt := range map[string]struct{ from, to, want string }{
			"step's model missing": {`"word"`, `"nowhere"`, "depends on 'nowhere' which has no loaded version"},
			"input that is not there": {`"word" model_version: -1 input_map { key: "INPUT0"`,
				`"word" model_version: -1 input_map { key: "INPUT9"`,
				"mapping to non-existing input INPUT9 in model word"},
			"output that is not there": {`"OUTPUT0" value: "copy"`, `"OUTPUT9" value: "copy"`,
				"mapped from non-existing output OUTPUT9 in model word"},
			"input left open": {`"copy" } input_map { key: "INPUT1" value: "diff" }`, `"copy" }`,
				"input INPUT1 in model addsub is not mapped"},
			"other shape": {"\"A\" data_type: TYPE_INT32 dims: 4", "\"A\" data_type: TYPE_INT32 dims: 5",
				"inconsistent shape"},
			"larger batches than steps": {"max_batch_size: 8", "max_batch_size: 9",
				"allows maximum batch size 9, but it contains model word"},
		} {
			t.Run(name, func(t *testing.T) {
				cfg := strings.Replace(diamondConfig, tt.from, tt.to, 1)
				if cfg == diamondConfig {
					t.Fatal("the case changes nothing")
				}
				write(t, root+"/bad/config.pbtxt", cfg)
				write(t, root+"/bad/1/.keep", "")
				if err := load("bad"); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		}
	})
}

func TestEnsembleInPollMode(t *testing.T) {
	root := ensembles(t)
	c := newChanges()
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{root}, Settle: time.Millisecond,
			Events: engine.EventListener{Changed: c.note},
		},
		Mode: engine.ModePoll, PollInterval: 10 * time.Millisecond,
	})
	t.Run("A069 a step's folder goes and comes back, and the ensemble with it", func(t *testing.T) {
		if err := os.Rename(root+"/word", t.TempDir()+"/word"); err != nil {
			t.Fatal(err)
		}
		c.until(t, "diamond out of service", func() bool { ok, _ := e.ModelReady("diamond", -1); return !ok })
		write(t, root+"/word/config.pbtxt", wordConfig)
		write(t, root+"/word/1/.keep", "")
		c.until(t, "diamond and outer back", func() bool {
			a, _ := e.ModelReady("diamond", -1)
			b, _ := e.ModelReady("outer", -1)
			return a && b
		})
	})
}

func BenchmarkEnsemble(b *testing.B) {
	root := b.TempDir()
	write(b, root+"/word/config.pbtxt", wordConfig)
	write(b, root+"/word/1/.keep", "")
	cfg := `platform: "ensemble"
max_batch_size: 8
input { name: "T0" data_type: TYPE_INT32 dims: 4 }
output { name: "T3" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling {
`
	for i := range 3 {
		cfg += fmt.Sprintf("step { model_name: \"word\" model_version: -1 input_map { key: \"INPUT0\" value: "+
			"\"T%d\" } output_map { key: \"OUTPUT0\" value: \"T%d\" } }\n", i, i+1)
	}
	write(b, root+"/ens/config.pbtxt", cfg+"}\n")
	write(b, root+"/ens/1/.keep", "")
	e := startBench(b, root)
	for _, tt := range []struct {
		name, model string
		times       int
	}{{"three steps by hand", "word", 3}, {"ensemble", "ens", 1}} {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				for range tt.times {
					r := diamond(tt.model, 1, map[string]string{"word": "INPUT0", "ens": "T0"}[tt.model])
					if err := e.Infer(context.Background(), r); err != nil {
						b.Fatal(err)
					}
					resp, err := r.Next(context.Background())
					if err != nil || resp.Err != nil {
						b.Fatal(err, resp.Err)
					}
					resp.Release()
					r.Release()
				}
			}
		})
	}
}

func startBench(b *testing.B, root string) *engine.Engine {
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: builtin.All()},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close(context.Background()) })
	if err := e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return e
}
