package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	tunecmd "nereid/app/command/tune"
	"nereid/app/console/api"
	"nereid/store"
)

// page sends a request to a server's console as the page does.
func page[T any](t *testing.T, r *rig, status int, method, path string, body any) (out T) {
	t.Helper()
	text := ""
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	code, answer := ask(t, http.DefaultClient, method, "http://"+r.at("ui")+path, text, "X-Nereid: 1")
	if code != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, code, answer, status)
	}
	if answer != "" {
		if err := json.Unmarshal([]byte(answer), &out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
	return out
}

// tunedBy waits until a tuning ends.
func tunedBy(t *testing.T, r *rig, path string) api.Tuning {
	t.Helper()
	for {
		got := page[api.Tuning](t, r, 200, "GET", path, nil)
		if got.State != api.TuningRunning {
			return got
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the tuning does not end")
		case <-time.After(50 * time.Millisecond): // as often as the page
		}
	}
}

// The page runs the same search as the command. This test runs one from the plan to the file in the repository, and
// finds it again after a restart.
func TestTuneOnThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Setenv(asProgram, "1")
	root := writeFiles(t, t.TempDir(), map[string]string{"n/1/x": "", "n/config.pbtxt": `backend: "identity"
input { name: "INPUT0" data_type: TYPE_FP32 dims: 8 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 8 }`, "m/1/x": "", "m/config.pbtxt": `# mine
backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
`})
	args := []string{"--model-repository=" + root, "--data-dir=" + t.TempDir(), "--load-model=m", "--load-model=n",
		"--backend-config=python,python=python3"}
	r := runServer(t, "", args...)
	const base = "/api/models/m/tunings"
	config := filepath.Join(root, "m", "config.pbtxt")
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if got := tunecmd.ServerOptions(r.c.Args); !slices.Equal(got, []string{"--backend-config=python,python=python3"}) {
		t.Errorf("the private servers get %q", got)
	}
	req := api.StartTuning{Search: "brute", MaxBatchSizes: "present", QueueDelays: "off", InstanceCounts: "3",
		Concurrency: "1,2", WindowMs: 50, Shapes: api.List[string]{"INPUT0:16"}}
	plan := page[api.TuningPlan](t, r, 200, "POST", base+"/plan", req)
	// The present number of instances is tried in addition to those that the plan names.
	if plan.Most != 4 || plan.Size != 4 || plan.LeastMs <= 0 || plan.MostMs < plan.LeastMs || len(plan.Axes) != 3 {
		t.Errorf("plan %+v", plan)
	}
	for name, bad := range map[string]api.StartTuning{
		"objective": {Objective: "speed"}, "optuna": {Search: "optuna"}, "none of": {InstanceCounts: "many"},
		"16 rows":   {Batch: 16},
		"than 1000": {Search: "brute"}, "want a min": {LatencyBudgetMs: -1},
	} {
		if got := page[api.Error](t, r, 400, "POST", base, bad); got.Code != api.CodeInvalid ||
			!strings.Contains(got.Error, name) {
			t.Errorf("%+v: %+v, want %q", bad, got, name)
		}
	}
	started := page[api.Tuning](t, r, 202, "POST", base, req)
	if started.State != api.TuningRunning || started.ID == 0 || started.Most != 4 {
		t.Errorf("started: %+v", started)
	}
	one := fmt.Sprintf("%s/%d", base, started.ID)
	got := tunedBy(t, r, one)
	if got.State != api.TuningDone || got.Reason != "" || len(got.Trials) != 4 || got.Measured != 4 ||
		got.Best == nil || got.Present == nil || got.Now != nil || len(got.Configs) != 2 {
		t.Fatalf("result %+v", got)
	}
	for _, trial := range got.Trials {
		if trial.Failed != "" || trial.Rate <= 0 || trial.P99Us < trial.P50Us || trial.P50Us <= 0 ||
			trial.MemoryBytes < 10<<20 || !trial.Keeps {
			t.Errorf("trial %+v", trial)
		}
	}
	if now := page[api.Tuning](t, r, 200, "GET", one+"?from=3", nil); len(now.Trials) != 1 || now.From != 3 ||
		!reflect.DeepEqual(now.Trials[0], got.Trials[3]) {
		t.Errorf("from the fourth trial: %+v", now)
	}
	if len(got.Configs[0].Changes) != 0 || len(got.Configs[1].Changes) == 0 || got.Configs[1].Changes[0].Model != "m" {
		t.Fatalf("configurations %+v", got.Configs)
	}
	texts := page[api.TuningTexts](t, r, 200, "GET", one+"/configs/1", nil)
	if len(texts.Texts) != 1 || texts.Texts[0].Before != string(before) ||
		!strings.Contains(texts.Texts[0].After, "count: 3") || !strings.HasPrefix(texts.Texts[0].After, "# mine") {
		t.Errorf("texts %+v", texts)
	}
	if now, err := os.ReadFile(config); err != nil || string(now) != string(before) {
		t.Errorf("the search wrote %q, %v", now, err)
	}

	page[api.Error](t, r, 404, "GET", one+"/configs/2", nil)
	page[api.Error](t, r, 400, "POST", one+"/apply", api.ApplyTuning{Config: 0})
	applied := page[api.AppliedTuning](t, r, 200, "POST", one+"/apply", api.ApplyTuning{Config: 1})
	if len(applied.Saves) != 1 || applied.Saves[0].Outcome != api.SaveLoaded ||
		applied.Saves[0].Revision.Source != store.SourceTune {
		t.Fatalf("applied %+v", applied)
	}
	if now, err := os.ReadFile(config); err != nil || string(now) != texts.Texts[0].After {
		t.Errorf("applied as %q, %v", now, err)
	}
	if m := page[api.ModelDetail](t, r, 200, "GET", "/api/models/m", nil); m.Instances != 3 ||
		m.State != api.StateReady {
		t.Errorf("the model that serves: %d instances, %s", m.Instances, m.State)
	}
	revs := page[api.Revisions](t, r, 200, "GET", "/api/models/m/revisions", nil)
	if len(revs.Revisions) != 1 || revs.Revisions[0].ID != applied.Saves[0].Revision.ID {
		t.Errorf("revisions %+v", revs)
	}
	if again := page[api.Error](t, r, 409, "POST", one+"/apply",
		api.ApplyTuning{Config: 1}); !strings.Contains(again.Error, "in place already") {
		t.Errorf("applied twice: %+v", again)
	}

	r.shutdown()
	r = runServer(t, "", args...)
	list := page[api.Tunings](t, r, 200, "GET", base, nil)
	if len(list.Tunings) != 1 || list.Tunings[0].Applied != revs.Revisions[0].ID ||
		list.Tunings[0].State != api.TuningDone || !reflect.DeepEqual(list.Tunings[0].Best, got.Best) ||
		!list.Writable {
		t.Errorf("after a restart: %+v", list)
	}
	if kept := page[api.Tuning](t, r, 200, "GET", one, nil); len(kept.Trials) != 4 {
		t.Errorf("after a restart: %+v", kept)
	}

	page[api.Error](t, r, 404, "POST", base, api.StartTuning{With: api.List[string]{"nosuch"}})
	both := page[api.Tuning](t, r, 202, "POST", base, api.StartTuning{With: api.List[string]{"n"}, Search: "brute",
		MaxBatchSizes: "present", QueueDelays: "present",
		InstanceCounts: "present", Concurrency: "1", WindowMs: 50})
	got = tunedBy(t, r, fmt.Sprintf("%s/%d", base, both.ID))
	if got.State != api.TuningDone || len(got.Trials) != 1 || len(got.Trials[0].Models) != 2 ||
		got.Trials[0].Models[1].Model != "n" || got.Trials[0].Models[1].Rate <= 0 {
		t.Errorf("of two models: %+v", got)
	}
}

// A running tuning does not delay the server's stop, and leaves neither processes nor folders.
func TestTuneOnThePageEndsWithTheServer(t *testing.T) {
	t.Setenv(asProgram, "1")
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	args := []string{"--data-dir=" + t.TempDir()}
	r := runServer(t, "", args...)
	started := page[api.Tuning](t, r, 202, "POST", "/api/models/good/tunings", api.StartTuning{WindowMs: 60_000})
	one := fmt.Sprintf("/api/models/good/tunings/%d", started.ID)
	for page[api.Tuning](t, r, 200, "GET", one, nil).Now == nil { // until a private server is there
		select {
		case <-t.Context().Done():
			t.Fatal("nothing is measured")
		case <-time.After(50 * time.Millisecond):
		}
	}
	r.shutdown()
	left, err := filepath.Glob(filepath.Join(tmp, "nereid-tune-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	r = runServer(t, "", args...)
	if got := page[api.Tuning](t, r, 200, "GET", one, nil); got.State != api.TuningStopped || got.Measured != 0 {
		t.Errorf("after the end: %+v", got)
	}
}

// A server whose program file is called tritonserver can tune models from the page.
func TestPrivateServeUnderAnyName(t *testing.T) {
	for _, name := range []string{"nereid", "/opt/tritonserver/bin/tritonserver"} {
		var out, errs bytes.Buffer
		if code := Main([]string{name, tunecmd.PrivateServe, "--nosuch=1"}, &out, &errs); code != 1 ||
			!strings.Contains(errs.String(), tunecmd.PrivateServe+" --help lists the options") {
			t.Errorf("%s: status %d, %s%s", name, code, out.String(), errs.String())
		}
	}
}

// A running server stores the revisions of a tuning that nereid tune --apply made.
func TestTuneRevisionThroughServer(t *testing.T) {
	srv := runServer(t, "")
	before, after := "# before\n", "# after\n"
	rev := store.Revision{Model: "m", Source: store.SourceTune, Before: &before, After: &after, Outcome: "saved"}
	if err := tuneProgram().AddRevision(srv.data.Path, rev); err != nil {
		t.Fatal(err)
	}
	got, err := srv.store.FileRevision(t.Context(), "m")
	if err != nil || got.Parent != 0 || got.Source != store.SourceTune || *got.Before != before || *got.After != after {
		t.Errorf("revision %+v, %v", got, err)
	}
}
