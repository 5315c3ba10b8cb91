package engine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/infer"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// sequenceConfig is a model of the sequence backends. Its sequences outlive the tests unless idle says otherwise.
func sequenceConfig(backend string, batch int, strategy, idle string) string {
	return fmt.Sprintf(`backend: %q
max_batch_size: %d
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 }
instance_group { count: 1 kind: KIND_CPU }
sequence_batching { %s
  max_sequence_idle_microseconds: %s
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  control_input { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } }
  control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
}
`, backend, batch, strategy, idle)
}

const hour = "3600000000"

func sequences(t *testing.T, models map[string]string) *engine.Engine {
	root := t.TempDir()
	for name, cfg := range models {
		write(t, root+"/"+name+"/config.pbtxt", cfg)
		write(t, root+"/"+name+"/1/.keep", "")
	}
	return start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root}}})
}

// part is a request of a sequence.
func part(model string, id any, flags infer.Flags, n int32) *infer.Request {
	r := infer.New()
	r.ModelName, r.Flags = model, flags
	switch id := id.(type) {
	case int:
		r.Correlation.Number = uint64(id)
	case string:
		r.Correlation.Text = id
	}
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT", DataType: tensor.Int32, Shape: []int64{1, 1},
		Data: words(n)})
	return r
}

// send sends a request of a sequence and returns its OUTPUT.
func send(t *testing.T, e *engine.Engine, model string, id any, flags infer.Flags, n int32) (int32, error) {
	t.Helper()
	r := part(model, id, flags, n)
	defer r.Release()
	outs, err := all(t, e, r)
	if err != nil || len(outs) != 1 || len(outs[0]["OUTPUT"]) != 1 {
		if err == nil {
			t.Fatalf("%s gave %v", model, outs)
		}
		return 0, err
	}
	return outs[0]["OUTPUT"][0], nil
}

const (
	first = infer.SequenceStart
	last  = infer.SequenceEnd
	whole = first | last
)

func TestSequencesKeepState(t *testing.T) {
	models := map[string]string{}
	for _, m := range []struct{ name, backend, strategy string }{
		{"direct", "sequence", "direct {}"}, {"plain", "sequence", ""}, {"ids", "dyna_sequence", ""},
		{"oldest", "dyna_sequence", "oldest { max_candidate_sequences: 3 }"},
	} {
		models[m.name] = sequenceConfig(m.backend, 4, m.strategy, hour)
	}
	e := sequences(t, models)
	for _, tt := range []struct {
		name, model string
		end         func(id, sum int32) int32
	}{
		{"C027 direct", "direct", func(_, sum int32) int32 { return sum }},
		{"C027 direct is the default", "plain", func(_, sum int32) int32 { return sum }},
		{"C031 C027 direct, told the correlation ID", "ids", func(id, sum int32) int32 { return sum + id }},
		{"C029 C031 oldest", "oldest", func(id, sum int32) int32 { return sum + id }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var wg sync.WaitGroup
			for id := range 8 { // twice the slots: the others wait in the backlog
				wg.Go(func() {
					for round := range 3 {
						sum := int32(0)
						for i := range 6 {
							flags := infer.Flags(0)
							if i == 0 {
								flags |= first
							}
							if i == 5 {
								flags |= last
							}
							n := int32(1000*id + 10*round + i)
							sum += n
							want := sum
							if i == 5 {
								want = tt.end(int32(id+1), sum)
							}
							if got, err := send(t, e, tt.model, id+1, flags, n); err != nil || got != want {
								t.Errorf("sequence %d, request %d: %d, %v; want %d", id+1, i, got, err, want)
								return
							}
						}
					}
				})
			}
			wg.Wait()
			snap := snapshot(e, tt.model)
			if n := snap.Success.Count; n != 8*3*6 || snap.Inferences != n || snap.Pending != 0 {
				t.Errorf("E032 statistics: %d successes, %d inferences, %d pending; want %d, the same, 0", n,
					snap.Inferences, snap.Pending, 8*3*6)
			}
		})
	}
}

func snapshot(e *engine.Engine, model string) stats.Snapshot {
	for _, s := range e.Snapshots(nil) {
		if s.Model == model {
			return s
		}
	}
	return stats.Snapshot{}
}

func TestSequenceErrors(t *testing.T) {
	e := sequences(t, map[string]string{
		"m": sequenceConfig("sequence", 4, "", hour), "short": sequenceConfig("sequence", 1, "", "20000"),
		"one": sequenceConfig("sequence", 1, "", hour),
		"text": strings.Replace(sequenceConfig("dyna_sequence", 4, "oldest { }", hour), "TYPE_UINT64", "TYPE_STRING",
			1),
	})
	refused := func(t *testing.T, err error, code status.Code, text string) {
		t.Helper()
		if err == nil || status.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want %v: %s", err, code, text)
		}
	}
	t.Run("C034 no correlation id", func(t *testing.T) {
		_, err := send(t, e, "m", 0, first, 1)
		refused(t, err, status.InvalidArg, "inference request to model 'm' must specify a non-zero or non-empty "+
			"correlation ID")
	})
	t.Run("C034 DV58 no START, or a text for a number", func(t *testing.T) {
		_, err := send(t, e, "m", 4, 0, 1)
		refused(t, err, status.InvalidArg, "inference request for sequence 4 to model 'm' must specify the START "+
			"flag on the first request of the sequence")
		_, err = send(t, e, "m", "four", 0, 1)
		refused(t, err, status.InvalidArg, "must be a number: the model takes it as UINT64")
	})
	t.Run("C034 END of an unknown sequence", func(t *testing.T) {
		_, err := send(t, e, "m", 5, last, 1)
		refused(t, err, status.InvalidArg, "inference request for sequence 5 to model 'm' must specify the START flag")
	})
	t.Run("C034 after END", func(t *testing.T) {
		if _, err := send(t, e, "m", 6, whole, 1); err != nil {
			t.Fatal(err)
		}
		_, err := send(t, e, "m", 6, 0, 1)
		refused(t, err, status.InvalidArg, "must specify the START flag")
	})
	t.Run("C034 a second START restarts the sequence", func(t *testing.T) {
		for range 2 {
			if got, err := send(t, e, "m", 7, first, 3); err != nil || got != 3 {
				t.Errorf("%d, %v; want 3", got, err)
			}
		}
		if got, err := send(t, e, "m", 7, last, 2); err != nil || got != 5 {
			t.Errorf("%d, %v; want 5", got, err)
		}
	})
	t.Run("C033 batch size", func(t *testing.T) {
		r := part("m", 8, first, 1)
		defer r.Release()
		r.Inputs[0].Shape, r.Inputs[0].Data = []int64{2, 1}, words(1, 2)
		_, err := all(t, e, r)
		refused(t, err, status.InvalidArg, "inference request to model 'm' must specify batch-size 1 due to "+
			"requirements of sequence batcher")
	})
	t.Run("C035 DV57 text", func(t *testing.T) {
		if got, err := send(t, e, "text", "a name", first, 3); err != nil || got != 3 {
			t.Errorf("%d, %v; want 3", got, err)
		}
		if got, err := send(t, e, "text", "a name", last, 4); err != nil || got != 7+int32(len("a name")) {
			t.Errorf("%d, %v; want 7 and the length of the text that the model got", got, err)
		}
		if got, err := send(t, e, "text", 1234, whole, 4); err != nil || got != 4+int32(len("1234")) {
			t.Errorf("a number for a model that takes a text: %d, %v; want 8", got, err)
		}
		_, err := send(t, e, "text", strings.Repeat("x", 129), first, 3)
		refused(t, err, status.Unsupported, "string correlation ID cannot be longer than 128 characters")
		if _, err = send(t, e, "text", strings.Repeat("x", 128), first, 3); err != nil {
			t.Error(err)
		}
	})
	t.Run("C030 C032 E3 an idle sequence gives its slot to the backlog", func(t *testing.T) {
		if _, err := send(t, e, "short", 1, first, 1); err != nil { // takes the only slot, and stays away
			t.Fatal(err)
		}
		if got, err := send(t, e, "short", 2, whole, 5); err != nil || got != 5 {
			t.Errorf("%d, %v; want 5 after the idle time", got, err)
		}
		_, err := send(t, e, "short", 1, 0, 1)
		refused(t, err, status.InvalidArg, "inference request for sequence 1 to model 'short' must specify the "+
			"START flag")
	})
	t.Run("C032 B046 E3 timeout in the backlog", func(t *testing.T) {
		if _, err := send(t, e, "one", 1, first, 1); err != nil { // takes the only slot
			t.Fatal(err)
		}
		r := part("one", 2, first, 1)
		defer r.Release()
		r.Timeout = 20 * time.Millisecond
		_, err := all(t, e, r)
		refused(t, err, status.Unavailable, "timeout of the corresponding sequence has been expired")
		_, err = send(t, e, "one", 2, 0, 1)
		refused(t, err, status.InvalidArg, "must specify the START flag")
		if s := snapshot(e, "one"); s.Failures[stats.Rejected] != 1 || s.Pending != 0 {
			t.Errorf("%v failures, %d pending; want 1 that was rejected", s.Failures, s.Pending)
		}
	})
	t.Run("C032 C055 a cancelled request takes those that follow along", func(t *testing.T) {
		var rs []*infer.Request
		for i := range 3 {
			flags := infer.Flags(0)
			if i == 0 {
				flags = first
			}
			r := part("one", 3, flags, 1)
			if err := e.Infer(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			rs = append(rs, r)
		}
		rs[1].Cancel()
		for _, r := range rs[1:] {
			resp, err := r.Next(t.Context())
			if err != nil || status.CodeOf(resp.Err) != status.Cancelled {
				t.Errorf("%v, %v; want Cancelled", resp, err)
			}
		}
		if _, err := send(t, e, "one", 3, 0, 1); status.CodeOf(err) != status.InvalidArg {
			t.Errorf("the sequence goes on: %v", err)
		}
		if _, err := send(t, e, "one", 1, last, 1); err != nil { // frees the slot
			t.Fatal(err)
		}
		resp, err := rs[0].Next(t.Context())
		if err != nil || resp.Err != nil {
			t.Errorf("the request before: %v, %v", resp, err)
		}
		if got, err := send(t, e, "one", 4, whole, 9); err != nil || got != 9 {
			t.Errorf("%d, %v: the slot is not free", got, err)
		}
		for _, r := range rs {
			r.Release()
		}
	})
}

// sequenceEnsemble runs the model m.
const sequenceEnsemble = `platform: "ensemble" max_batch_size: 4
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 } output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling { step { model_name: "m" model_version: -1 input_map { key: "INPUT" value: "INPUT" }
     output_map { key: "OUTPUT" value: "OUTPUT" } } }`

func TestSequenceEnsemble(t *testing.T) {
	e := sequences(t, map[string]string{
		"m":   sequenceConfig("sequence", 4, "", hour),
		"ens": sequenceEnsemble,
	})
	t.Run("C045 a step is part of the sequence", func(t *testing.T) {
		for i, want := range []int32{5, 10, 15} {
			if got, err := send(t, e, "ens", 9, []infer.Flags{first, 0, last}[i], 5); err != nil || got != want {
				t.Errorf("%d, %v; want %d", got, err, want)
			}
		}
		if _, err := send(t, e, "ens", 9, 0, 5); status.CodeOf(err) != status.InvalidArg {
			t.Errorf("%v; want InvalidArg", err)
		}
	})
}

func TestIterativeSequence(t *testing.T) {
	for _, strategy := range []string{"iterative_sequence: true",
		"iterative_sequence: true oldest { max_candidate_sequences: 4 }"} {
		cfg := sequenceConfig("iterative_sequence", 4, strategy, hour) + "model_transaction_policy { decoupled: true }"
		e := sequences(t, map[string]string{
			"count": cfg, "not": strings.Replace(cfg, "iterative_sequence: true", "iterative_sequence: false", 1),
		})
		t.Run("C040 "+strategy, func(t *testing.T) {
			var wg sync.WaitGroup
			for n := range 10 {
				wg.Go(func() {
					r := part("count", 0, 0, int32(n+1))
					defer r.Release()
					outs, err := all(t, e, r)
					var got, want []int32
					for _, o := range outs {
						got = append(got, o["OUTPUT"]...)
					}
					for i := n; i >= 0; i-- {
						want = append(want, int32(i))
					}
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("%v, %v; want %v", got, err, want)
					}
				})
			}
			wg.Wait()
			s := snapshot(e, "count")
			if s.Success.Count != 10 || s.Inferences != 10 || s.Pending != 0 || s.Executions < 10 || s.Executions > 55 {
				t.Errorf("%d successes, %d inferences, %d executions, %d pending; want 10, 10, at least as many as "+
					"the longest has steps, 0",
					s.Success.Count, s.Inferences, s.Executions, s.Pending)
			}
			if got, err := send(t, e, "count", 3, first, 1); err != nil || got != 0 {
				t.Errorf("with a correlation ID: %d, %v; want 0", got, err)
			}
			if _, err := send(t, e, "count", 3, 0, 1); status.CodeOf(err) != status.InvalidArg {
				t.Errorf("the sequence of a request outlives it: %v", err)
			}
			r := part("not", 3, first, 3)
			defer r.Release()
			_, err := all(t, e, r)
			if err == nil || !strings.Contains(err.Error(),
				"Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE") {
				t.Errorf("without iterative_sequence: %v", err)
			}
		})
	}
}

// A live sequence stays with the version that has its state; new ones begin on the new version.
func TestSequencesSurviveReload(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/m/config.pbtxt", sequenceConfig("sequence", 4, "", hour)+
		"version_policy { latest { num_versions: 1 } }\n")
	write(t, root+"/m/1/.keep", "")
	put(t, root, "over", sequenceEnsemble)
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}},
		Mode:         engine.ModeExplicit, StartupModels: []string{"*"},
	})
	wantOf := func(model string, id int, flags infer.Flags, n, sum int32) {
		t.Helper()
		if got, err := send(t, e, model, id, flags, n); err != nil || got != sum {
			t.Fatalf("sequence %d: %d, %v; want %d", id, got, err, sum)
		}
	}
	want := func(id int, flags infer.Flags, n, sum int32) {
		t.Helper()
		wantOf("m", id, flags, n, sum)
	}
	t.Run("C027 DV59 replaced by a changed file", func(t *testing.T) {
		want(1, first, 5, 5)
		write(t, root+"/m/1/model", "new")
		if err := e.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		want(1, 0, 5, 10)
		want(2, first, 1, 1)
	})
	t.Run("C027 replaced by another version", func(t *testing.T) {
		write(t, root+"/m/2/.keep", "")
		if err := e.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		want(1, 0, 5, 15)
		want(2, 0, 1, 2)
		want(3, first, 7, 7)
		if n := snapshotOf(e, "m", 2).Success.Count; n != 1 {
			t.Errorf("version 2 answered %d requests, want the one that began a sequence", n)
		}
		want(1, last, 5, 20)
		want(1, first, 4, 4)
		want(2, last, 1, 3)
		want(3, last, 1, 8)
		want(1, last, 1, 5)
	})
	t.Run("C034 DV59 one that starts again goes on where it did", func(t *testing.T) {
		want(5, first, 9, 9)
		want(6, first, 9, 9)
		write(t, root+"/m/2/model", "new")
		if err := e.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		want(5, first, 1, 1)
		want(5, 0, 1, 2)
		want(5, last, 1, 3)
		if _, err := send(t, e, "m", 5, 0, 1); status.CodeOf(err) != status.InvalidArg {
			t.Errorf("%v; want the old sequence to have ended", err)
		}
		want(6, 0, 1, 10)
		want(6, last, 1, 11)
	})
	t.Run("C027 DV59 beside a newer version", func(t *testing.T) {
		want(7, first, 5, 5)
		want(8, first, 5, 5)
		write(t, root+"/m/config.pbtxt", sequenceConfig("sequence", 4, "", hour)+
			"version_policy { all { } }\n")
		write(t, root+"/m/3/.keep", "")
		if err := e.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		want(7, 0, 5, 10)
		write(t, root+"/m/4/.keep", "")
		if err := e.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		want(9, first, 1, 1)
		want(7, 0, 5, 15)
		want(8, first, 1, 1)
		want(8, last, 1, 2)
		write(t, root+"/m/5/.keep", "")
		if err := e.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		want(7, last, 5, 20)
		want(9, 0, 1, 2)
		want(9, first, 5, 5)
		want(9, last, 5, 10)
		if n := snapshotOf(e, "m", 5).Success.Count; n != 2 {
			t.Errorf("version 5 answered %d requests, want those of the sequence that started again", n)
		}
		want(10, first, 5, 5)
		write(t, root+"/m/6/.keep", "")
		if err := e.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		wantOf("over", 10, first, 1, 1)
		write(t, root+"/m/7/.keep", "")
		if err := e.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		want(10, 0, 1, 2)
		want(10, last, 1, 3)
		want(11, first, 5, 5)
		write(t, root+"/m/8/.keep", "")
		if err := e.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		r := part("m", 11, first, 1)
		defer r.Release()
		r.Inputs[0].Shape, r.Inputs[0].Data = []int64{2, 1}, words(1, 1)
		if _, err := all(t, e, r); err == nil || !strings.Contains(err.Error(), "must specify batch-size 1") {
			t.Errorf("a start with two rows: %v", err)
		}
		want(11, last, 1, 6)
	})
	t.Run("C027 unloading ends them", func(t *testing.T) {
		want(4, first, 5, 5)
		if err := os.RemoveAll(root + "/m/1"); err != nil {
			t.Fatal(err)
		}
		e.Remove("m")
		if _, err := send(t, e, "m", 4, 0, 1); status.CodeOf(err) != status.NotFound {
			t.Errorf("%v; want NotFound", err)
		}
	})
}

func snapshotOf(e *engine.Engine, model string, version int64) stats.Snapshot {
	for _, s := range e.Snapshots(nil) {
		if s.Model == model && s.Version == version {
			return s
		}
	}
	return stats.Snapshot{}
}

func TestSequenceWarmup(t *testing.T) {
	const sample = `model_warmup { name: %q batch_size: 1 inputs { key: "INPUT" value { data_type: TYPE_INT32 dims: ` +
		`1 random_data: true } } %s }`
	iterative := sequenceConfig("iterative_sequence", 4, "iterative_sequence: true", hour) +
		"model_transaction_policy { decoupled: true }\n"
	e := sequences(t, map[string]string{
		"bare": sequenceConfig("dyna_sequence", 4, "", hour) + fmt.Sprintf(sample, "s", ""),
		"told": sequenceConfig("sequence", 4, "", hour) +
			fmt.Sprintf(sample, "s", `inputs { key: "READY" value { data_type: TYPE_FP32 dims: 1 zero_data: true } }`),
		"steps": iterative + fmt.Sprintf(sample, "s", ""),
	})
	for model, state := range map[string]string{"bare": "READY", "steps": "READY", "told": "UNAVAILABLE"} {
		t.Run("C083 "+model, func(t *testing.T) {
			m, _ := e.Model(model)
			// A row whose READY control is false is not answered. So the sample's own value of the control is used.
			if len(m.Versions) != 1 || string(m.Versions[0].State) != state {
				t.Errorf("%v %v; want %s", m.Err, m.Versions, state)
			}
		})
	}
	if got, err := send(t, e, "bare", 5, whole, 4); err != nil || got != 9 {
		t.Errorf("%d, %v; want 9", got, err)
	}
}
