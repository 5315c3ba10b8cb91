package python_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/python"
	"nereid/engine/infer"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// seriesRig is one instance of a Python model, without the server that decides which batches form a series.
type seriesRig struct {
	t     *testing.T
	inst  backend.Series
	leave bool // another instance could execute the rest of a series
}

func newSeriesRig(t *testing.T, settings map[string]string, cfgText, source string) *seriesRig {
	t.Helper()
	return newSeriesRigWithLog(t, settings, cfgText, source, slog.New(slog.DiscardHandler))
}

func newSeriesRigWithLog(t *testing.T, settings map[string]string, cfgText, source string,
	log *slog.Logger) *seriesRig {
	t.Helper()
	folder := t.TempDir()
	version := filepath.Join(folder, "m", "1")
	if err := os.MkdirAll(version, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(version, "model.py"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, faults := modelconfig.Parse("config.pbtxt", []byte(`name: "m" `+cfgText))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	all := map[string]string{"python": interpreter(t), "stub-timeout-seconds": "300"} // for busy machines
	for k, v := range settings {
		all[k] = v
	}
	launcher := worker.NewLauncher(worker.Options{})
	t.Cleanup(launcher.Close)
	b, err := python.New(python.Options{Settings: all, Folder: t.TempDir(), Launcher: launcher})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	m, err := b.Load(t.Context(), backend.Spec{ModelName: "m", Version: 1, Config: cfg,
		ModelFolder: filepath.Dir(version), VersionFolder: version, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.NewInstance(t.Context(), backend.Placement{Name: "m_0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &seriesRig{t: t, inst: inst.(backend.Series)}
}

// run executes requests as one series, as package instance does. It returns each response and the times of its batch.
func (g *seriesRig) run(requests ...*infer.Request) ([]answer, []infer.Times) {
	g.t.Helper()
	var batches []*infer.Batch
	for _, r := range requests {
		b := infer.NewBatch()
		r.BatchSize = 1
		b.Requests, b.Rows = append(b.Requests, r), 1
		b.Begin()
		batches = append(batches, b)
	}
	errs := make([]error, len(batches))
	g.inst.ExecuteSeries(g.t.Context(), batches, errs, func() bool { return g.leave })
	var all []answer
	var times []infer.Times
	for i, r := range requests {
		r.Fail(errs[i])
		resp, err := r.Next(g.t.Context())
		if err != nil {
			g.t.Fatal(err)
		}
		all = append(all, read(resp))
		times = append(times, r.Times)
		batches[i].End()
		r.Release()
	}
	return all, times
}

// runTo is run for models that wait for the file gate. It makes the file when the first request is answered.
func (g *seriesRig) runTo(gate string, values ...float32) []answer {
	g.t.Helper()
	requests := vectors(values...)
	first := requests[0].Retain()
	defer first.Release()
	done := make(chan []answer)
	go func() {
		answers, _ := g.run(requests...)
		done <- answers
	}()
	until(g.t, "the first is answered", first.Answered)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		g.t.Error(err)
	}
	return <-done
}

func vectors(values ...float32) (all []*infer.Request) {
	for _, v := range values {
		all = append(all, request("m", map[string][]float32{"IN": {v}}))
	}
	return all
}

// The requests of a series are executed one by one, as if each had come alone.
func TestSeries(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	executed := filepath.Join(t.TempDir(), "executed")
	g := newSeriesRig(t, map[string]string{"execute-timeout-seconds": "20"}, config(""), code(`
with open(`+strconv.Quote(executed)+`, "a") as f: f.write("%d " % x[0])
if x[0] == 7: raise ValueError("not this one")
if x[0] == 8: time.sleep(0.03)
if x[0] == 9:
    while not os.path.exists(`+strconv.Quote(gate)+`): time.sleep(0.001)
if x[0] == 10: os._exit(3)
if x[0] == 11: raise SystemExit("gone")
y = np.concatenate([x, np.array([len(requests), os.getpid()], np.float32)])
if x[0] == 12: y = np.repeat(x, 3000)
if x[0] == 13: os.kill(os.getpid(), signal.SIGKILL)
`, ""))
	want := func(t *testing.T, a answer, v float32) {
		t.Helper()
		if got := a.floats("OUT"); a.err != nil || len(got) < 2 || got[0] != v || got[1] != 1 {
			t.Errorf("the answer to %v is %v, %v; want itself, alone in its execution", v, got, a.err)
		}
	}
	t.Run("D023 each request has its own execution and answer", func(t *testing.T) {
		var values []float32
		for i := range 40 {
			values = append(values, float32(100+i))
		}
		answers, _ := g.run(vectors(values...)...)
		for i, a := range answers {
			want(t, a, values[i])
		}
	})
	t.Run("an exception is one request's", func(t *testing.T) {
		answers, _ := g.run(vectors(1, 7, 2, 11, 3)...)
		for i, v := range []float32{1, 0, 2, 0, 3} {
			if v != 0 {
				want(t, answers[i], v)
			}
		}
		for i, text := range map[int]string{1: "ValueError: not this one\n\nAt:\n  ", 3: "SystemExit: gone"} {
			if err := answers[i].err; status.CodeOf(err) != status.Internal || !strings.HasPrefix(err.Error(),
				"Failed to process the request(s) for model 'm_0', message: "+text) {
				t.Errorf("%v; want %s…", err, text)
			}
		}
	})
	t.Run("stamps are those of each one's execution", func(t *testing.T) {
		_, times := g.run(vectors(1, 8, 2)...)
		for i, s := range times {
			if s.Taken > s.Input || s.Input > s.Output || s.Output > s.Finished ||
				i > 0 && s.Input < times[i-1].Output {
				t.Errorf("request %d: %+v, after %+v", i, s, times[max(i-1, 0)])
			}
		}
		if d := times[1].Output.Sub(times[1].Input); d < 30*time.Millisecond {
			t.Errorf("an execution of 30 ms is said to have taken %v", d)
		}
	})
	t.Run("answers do not wait for what comes behind them", func(t *testing.T) {
		for i, a := range g.runTo(gate, 8, 9, 3) {
			want(t, a, []float32{8, 9, 3}[i])
		}
	})
	t.Run("D033 a cancelled request is not executed", func(t *testing.T) {
		requests := vectors(1, 10, 2) // the second one ends the process
		requests[1].Cancel()
		answers, _ := g.run(requests...)
		want(t, answers[0], 1)
		want(t, answers[2], 2)
		if status.CodeOf(answers[1].err) != status.Cancelled {
			t.Errorf("%v, want Cancelled", answers[1].err)
		}
	})
	t.Run("large tensors", func(t *testing.T) {
		var requests []*infer.Request
		big := make([]float32, 1<<18)
		for i := range 12 {
			big[0] = float32(1000 + i)
			v := big
			if i%3 == 1 {
				v = big[:2000]
			}
			requests = append(requests, request("m", map[string][]float32{"IN": v}))
		}
		answers, _ := g.run(append(requests, vectors(12, 12, 12, 12, 12, 12, 12, 1)...)...)
		for i, a := range answers[:12] {
			got := a.floats("OUT")
			if n := len(got); a.err != nil || n < 2002 || got[0] != float32(1000+i) || got[n-2] != 1 {
				t.Errorf("request %d: %d floats, %v", i, n, a.err)
			}
		}
		for _, a := range answers[12:19] {
			if got := a.floats("OUT"); a.err != nil || len(got) != 3000 || got[2999] != 12 {
				t.Errorf("%d floats, %v", len(got), a.err)
			}
		}
		want(t, answers[19], 1)
	})
	t.Run("D2 D056 a death is for those that had no answer", func(t *testing.T) {
		before, _ := g.run(vectors(1, 2)...)
		if err := os.Remove(executed); err != nil {
			t.Fatal(err)
		}
		answers, times := g.run(vectors(1, 2, 10, 3, 4, 5, 12, 13, 6)...)
		if all, err := os.ReadFile(executed); err != nil || string(all) != "1 2 10 3 4 5 12 13 6 " {
			t.Errorf("it executed %s, %v; want each once", all, err)
		}
		for i, v := range []float32{1, 2, 0, 3, 4, 5, 0, 0, 6} {
			if v != 0 {
				want(t, answers[i], v)
			}
		}
		if got := answers[6].floats("OUT"); answers[6].err != nil || len(got) != 3000 {
			t.Errorf("a larger answer before the death: %d floats, %v", len(got), answers[6].err)
		}
		for i, text := range map[int]string{2: "it ended with exit status 3", 7: "it was ended by signal 9"} {
			if err := answers[i].err; status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), text) {
				t.Errorf("the one that ended the process: %v, want …%s…", err, text)
			}
		}
		pids := []float32{before[0].floats("OUT")[2], answers[3].floats("OUT")[2], answers[8].floats("OUT")[2]}
		if slices.Sort(pids); pids[0] == pids[1] || pids[1] == pids[2] {
			t.Errorf("the processes were %v, want three", pids)
		}
		for i, s := range times {
			if s.Taken > s.Input || s.Input > s.Output || s.Output > s.Finished {
				t.Errorf("request %d: %+v", i, s)
			}
		}
	})
}

func TestTheRestOfASeriesIsLeftToOthers_D056(t *testing.T) {
	g := newSeriesRig(t, nil, config(""), code("if x[0] == 10: os._exit(3)\ny = x", ""))
	g.leave = true
	for range 2 { // the second time, the input is a suspect
		answers, _ := g.run(vectors(1, 10, 2, 3)...)
		if answers[0].err != nil || status.CodeOf(answers[1].err) != status.Unavailable {
			t.Errorf("got %v, %v; want the first answer, and the end of the process", answers[0].err, answers[1].err)
		}
		for _, a := range answers[2:] {
			if a.err == nil || !strings.Contains(a.err.Error(), infer.ErrNotBegun.Error()) {
				t.Errorf("a request of the rest: %v", a.err)
			}
		}
	}
}

// Responses that wait to be sent with others, here until the series ends.
func TestSeriesResponsesThatWait(t *testing.T) {
	g := newSeriesRig(t, nil, config(""), code(`
if x[0] == 8: time.sleep(0.03)
if x[0] == 10: os._exit(3)
if x[0] == 13: os.kill(os.getpid(), signal.SIGKILL)
y = np.repeat(x, 300) if x[0] % 2 else x`, `
def initialize(self, args):
    import _nereid_series
    _nereid_series._HOLD = _nereid_series._LATE = 1 << 60`))
	for how, v := range map[string]float32{"D2 os._exit": 10, "D2 SIGKILL": 13} {
		t.Run(how+" does not take them", func(t *testing.T) {
			var values []float32
			for i := range 100 { // more than fit into one frame
				values = append(values, float32(100+i))
			}
			answers, times := g.run(vectors(append(values, v, 1)...)...)
			for i, a := range answers {
				if i == len(values) {
					if status.CodeOf(a.err) != status.Unavailable {
						t.Errorf("the one that ended the process: %v", a.err)
					}
					continue
				}
				want := append(values, v, 1)[i]
				if got := a.floats("OUT"); a.err != nil || len(got) == 0 || got[0] != want || len(got) != []int{1,
					300}[int(want)%2] || got[len(got)-1] != want {
					t.Errorf("the answer to %v: %d floats, %v", want, len(got), a.err)
				}
				if s := times[i]; s.Taken > s.Input || s.Input > s.Output || s.Output > s.Finished {
					t.Errorf("request %d: %+v", i, s)
				}
			}
		})
	}
	t.Run("their stamps are those of each one's execution", func(t *testing.T) {
		answers, times := g.run(vectors(8, 1, 8, 8)...)
		for i, s := range times {
			if s.Taken > s.Input || s.Input > s.Output || s.Output > s.Finished ||
				i > 0 && s.Input < times[i-1].Output || answers[i].err != nil {
				t.Errorf("request %d: %+v, after %+v, %v", i, s, times[max(i-1, 0)], answers[i].err)
			}
			if d := s.Output.Sub(s.Input); i != 1 && d < 30*time.Millisecond {
				t.Errorf("an execution of 30 ms is said to have taken %v", d)
			}
		}
	})
}

// A response that came quickly waits for others, but not for long if the next execution takes long.
func TestSeriesResponsesAreNotHeldForLong(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	g := newSeriesRig(t, nil, config(""), code(`
if x[0] == 9:
    while not os.path.exists(`+strconv.Quote(gate)+`): time.sleep(0.001)
y = x`, `
def initialize(self, args):
    import _nereid_series
    _nereid_series._HOLD = 1 << 60`))
	for i, a := range g.runTo(gate, 1, 9, 3) {
		if want := []float32{1, 9, 3}[i]; a.err != nil || a.floats("OUT")[0] != want {
			t.Errorf("the answer to %v is %v, %v", want, a.floats("OUT"), a.err)
		}
	}
}

// Each execution of a series has the whole limit.
func TestSeriesLimitIsPerRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const limit = 5 * time.Second
	g := newSeriesRig(t, map[string]string{"execute-timeout-seconds": "5"}, config(""), code(`
if x[0] == 5:
    while True: pass
time.sleep(float(x[0]))
y = x`, ""))
	for _, series := range [][]float32{{1.8, 1.8, 1.8}, {0, 0.3, 5, 0}} {
		answers, times := g.run(vectors(series...)...)
		for i, a := range answers {
			endless := series[i] == 5
			if a.err == nil && !endless {
				continue
			}
			if status.CodeOf(a.err) != status.Unavailable || !strings.Contains(fmt.Sprint(a.err),
				"took longer than 5s") {
				t.Errorf("D3 request %d of %v: %v", i, series, a.err)
			}
			// On a very slow machine this is true of any response. What matters is when the wait began.
			began := times[i].Taken
			if i > 0 {
				began = max(began, times[i-1].Output)
			}
			if took := times[i].Finished.Sub(began); took < limit {
				t.Errorf("D3 request %d of %v was ended after %v, want %v", i, series, took, limit)
			}
		}
	}
}

// The model's verbose lines are logged in a series as in other executions.
func TestSeriesLogsVerboseLines(t *testing.T) {
	var text journal
	g := newSeriesRigWithLog(t, nil, config(""), code(`
pb_utils.Logger.log_verbose("a verbose line")
y = x`, ""), slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	answers, _ := g.run(vectors(1, 2, 3)...)
	for _, a := range answers {
		if a.err != nil {
			t.Fatal(a.err)
		}
	}
	until(t, "the lines are logged", func() bool { return strings.Count(text.String(), "a verbose line") == 3 })
}

// BYTES tensors work in a series too.
func TestSeriesOfStrings(t *testing.T) {
	g := newSeriesRig(t, nil, strings.ReplaceAll(config(""), "TYPE_FP32", "TYPE_STRING"),
		code(`y = x[::-1].copy()`, ""))
	texts := func(all ...string) *infer.Request {
		var b []byte
		for _, s := range all {
			b = tensor.AppendBytesElement(b, s)
		}
		q := infer.New()
		q.ModelName = "m"
		q.Inputs = append(q.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.Bytes, Shape: []int64{int64(len(all))},
			Data: b})
		return q
	}
	answers, _ := g.run(texts("a", "bb"), texts("ccc", ""), texts("d"))
	for i, text := range []string{"\x02\x00\x00\x00bb\x01\x00\x00\x00a", "\x00\x00\x00\x00\x03\x00\x00\x00ccc",
		"\x01\x00\x00\x00d"} {
		if a := answers[i]; string(a.outputs["OUT"]) != text {
			t.Errorf("request %d: %q, %v", i, a.outputs["OUT"], a.err)
		}
	}
}

// A model may use the same array for all its responses. The responses that were sent do not change.
func TestSeriesResponsesFromOneArray(t *testing.T) {
	for _, n := range []int{1, 5000, 300000} { // in the packet, in a slot, in a slot that makes the arena grow
		g := newSeriesRig(t, nil, config(""), code(`
if not hasattr(self, "out"): self.out = np.zeros(`+strconv.Itoa(n)+`, np.float32)
y = self.out
y[:] = x[0]`, ""))
		var values []float32
		for i := range 20 {
			values = append(values, float32(i+1))
		}
		answers, _ := g.run(vectors(values...)...)
		for i, a := range answers {
			if got := a.floats("OUT"); a.err != nil || len(got) != n || got[0] != values[i] || got[n-1] != values[i] {
				t.Errorf("%d floats, request %d: %d floats, the first %v, %v; want %v", n, i, len(got),
					got[:min(len(got), 1)], a.err, values[i])
			}
		}
	}
}

// A model may return an input that it keeps, and change it afterwards.
func TestSeriesResponsesFromAKeptInput(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, n := range []int{1, 5000, 300000} {
		for _, what := range []string{"x", "x[:]", "x.reshape(1, -1)[0]"} {
			g := newSeriesRig(t, nil, config(""), code(`
if not hasattr(self, "sum"): self.sum = `+what+`
else: self.sum += x
y = self.sum`, ""))
			var requests []*infer.Request
			for range 12 {
				in := make([]float32, n)
				for i := range in {
					in[i] = 1
				}
				requests = append(requests, request("m", map[string][]float32{"IN": in}))
			}
			answers, _ := g.run(requests...)
			for i, a := range answers {
				if got, want := a.floats("OUT"), float32(i+1); a.err != nil || len(got) != n || got[0] != want ||
					got[n-1] != want {
					t.Errorf("%s of %d floats, request %d: %d floats, the first %v, %v; want %v", what, n, i,
						len(got), got[:min(len(got), 1)], a.err, want)
				}
			}
		}
	}
}
