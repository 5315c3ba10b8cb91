package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/console/folders"
	"nereid/app/console/tuning"
	"nereid/engine"
	"nereid/store"
)

// fakeTuner reports the events that a test sends. The real one is tested in package app.
type fakeTuner struct {
	events chan tuning.Event // closed: the search has ended
	err    error
}

func (f *fakeTuner) Plan(m tuning.Model, r *api.StartTuning) (api.TuningPlan, error) {
	if m.Config(m.Name) == nil || m.Config("nosuch") != nil {
		return api.TuningPlan{}, errors.New("the configurations are wrong")
	}
	if r.Objective == "speed" {
		return api.TuningPlan{}, errors.New("objective \"speed\"")
	}
	return api.TuningPlan{Most: 7}, nil
}

func (f *fakeTuner) Tune(ctx context.Context, _ tuning.Model, _ *api.StartTuning, see func(tuning.Event)) error {
	for {
		select {
		case e, ok := <-f.events:
			if !ok {
				return f.err
			}
			see(e)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func tuningRig(t *testing.T) (*rig, *fakeTuner) {
	t.Helper()
	f := &fakeTuner{events: make(chan tuning.Event)}
	r := newRig(t, engine.ModeExplicit, func(o *console.Options) { o.Tuner = f })
	return r, f
}

// storedTuning is the form in which the store keeps a tuning.
type storedTuning struct {
	Tuning api.Tuning
	Texts  api.List[api.TuningTexts]
}

// stored puts a tuning into the store and returns its number.
func stored(t *testing.T, r *rig, s storedTuning) int64 {
	t.Helper()
	head, err := json.Marshal(s.Tuning.TuningHead)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.Store.AddTuning(t.Context(), store.Tuning{Model: s.Tuning.Model, Head: head, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// waitForEnd waits until a tuning has ended.
func waitForEnd(t *testing.T, r *rig, path string) api.Tuning {
	t.Helper()
	for {
		got := get[api.Tuning](r, 200, "GET", path, nil)
		if got.State != api.TuningRunning {
			return got
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the tuning does not end")
		case <-time.After(10 * time.Millisecond): // asks as the page does
		}
	}
}

// trial is an event with a trial of a configuration, which is new with texts.
func trial(config, best, present int, rate float64, texts ...api.TuningText) tuning.Event {
	e := tuning.Event{Trial: &api.TuningTrial{Config: config, Load: 8, Rate: rate, Keeps: true}, Best: best,
		Present: present}
	if texts != nil || config == 0 {
		e.Config = &tuning.Config{Texts: texts}
	}
	for _, x := range texts {
		e.Config.Changes = append(e.Config.Changes, api.TuningChange{Model: x.Model, Field: "instance_count", From: 1,
			To: 2})
	}
	return e
}

func TestTuning(t *testing.T) {
	const base = "/api/models/ready/tunings"
	path := func(id int64) string { return fmt.Sprintf("%s/%d", base, id) }
	const after = "backend: \"onnxruntime\"\nmax_batch_size: 4\ninstance_group { count: 2 }\n"

	t.Run("a search as the page sees it, and applied", func(t *testing.T) {
		r, f := tuningRig(t)
		if got := get[api.Tunings](r, 200, "GET", base, nil); len(got.Tunings) != 0 || !got.Writable {
			t.Errorf("before the first: %+v", got)
		}
		if got := get[api.TuningPlan](r, 200, "POST", base+"/plan", api.StartTuning{}); got.Most != 7 {
			t.Errorf("plan %+v", got)
		}
		started := get[api.Tuning](r, 202, "POST", base, api.StartTuning{Search: "quick"})
		one := path(started.ID)
		f.events <- tuning.Event{Plan: &api.TuningPlan{Most: 5}}
		f.events <- trial(0, 0, 0, 100)
		f.events <- trial(1, 1, 0, 150, api.TuningText{Model: "ready", After: after})
		f.events <- tuning.Event{Now: &api.TuningNow{Load: 16}}
		f.events <- tuning.Event{} // what was before it has been seen
		got := get[api.Tuning](r, 200, "GET", one+"?from=1", nil)
		if got.State != api.TuningRunning || got.Most != 5 || got.Measured != 2 || len(got.Trials) != 1 ||
			got.From != 1 || got.Best.Rate != 150 ||
			got.Present.Rate != 100 || len(got.BestChanges) != 1 || got.Now == nil || got.Now.Load != 16 ||
			len(got.Configs) != 2 {
			t.Errorf("while it runs: %+v", got)
		}
		if list := get[api.Tunings](r, 200, "GET", base, nil); len(list.Tunings) != 1 ||
			list.Tunings[0].Measured != 2 || list.Tunings[0].State != api.TuningRunning {
			t.Errorf("list while it runs: %+v", list)
		}
		get[api.Error](r, http.StatusConflict, "POST", base, api.StartTuning{})
		get[api.Error](r, http.StatusConflict, "DELETE", one, nil)
		get[api.Error](r, http.StatusConflict, "POST", one+"/apply", api.ApplyTuning{Config: 1})
		close(f.events)
		if got := waitForEnd(t, r, one); got.State != api.TuningDone || len(got.Trials) != 2 ||
			got.EndedMs < got.StartedMs || got.Now != nil {
			t.Errorf("result %+v", got)
		}
		waitForEvent(t, r, api.EventTuning, "ready", "tuning: done after 2 measurements")
		get[api.Error](r, http.StatusConflict, "POST", one+"/stop", nil)
		get[api.Error](r, 404, "GET", "/api/models/other/tunings/"+fmt.Sprint(started.ID), nil)
		applied := get[api.AppliedTuning](r, 200, "POST", one+"/apply", api.ApplyTuning{Config: 1})
		if len(applied.Saves) != 1 || applied.Saves[0].Outcome != api.SaveLoaded {
			t.Fatalf("applied %+v", applied)
		}
		if b, err := os.ReadFile(filepath.Join(r.Repo, "ready", "config.pbtxt")); err != nil || string(b) != after {
			t.Errorf("the file is %q, %v", b, err)
		}
		rev, err := r.Store.FileRevision(t.Context(), "ready")
		if err != nil || rev.Source != store.SourceTune || rev.Before != nil ||
			rev.ID != get[api.Tuning](r, 200, "GET", one, nil).Applied {
			t.Errorf("revision %+v, %v", rev, err)
		}
		if got := get[api.Error](r, http.StatusConflict, "POST", one+"/apply",
			api.ApplyTuning{Config: 1}); !strings.Contains(got.Error, "in place already") {
			t.Errorf("applied twice: %+v", got)
		}
		r.Write("ready/config.pbtxt", "max_batch_size: 2\n")
		if got := get[api.Error](r, http.StatusConflict, "POST", one+"/apply",
			api.ApplyTuning{Config: 1}); !strings.Contains(got.Error, "nothing is changed") {
			t.Errorf("applied to another text: %+v", got)
		}
		get[struct{}](r, 204, "DELETE", one, nil)
		get[api.Error](r, 404, "GET", one, nil)
	})

	t.Run("stopped with what was measured", func(t *testing.T) {
		r, f := tuningRig(t)
		one := path(get[api.Tuning](r, 202, "POST", base, api.StartTuning{}).ID)
		f.events <- trial(0, 0, 0, 100)
		get[api.Tuning](r, 200, "POST", one+"/stop", nil)
		if got := waitForEnd(t, r, one); got.State != api.TuningStopped || len(got.Trials) != 1 || got.Reason != "" {
			t.Errorf("result %+v", got)
		}
		// The next one may start. The end of the console stops it.
		get[api.Tuning](r, 202, "POST", base, api.StartTuning{})
	})

	t.Run("a failure has its reason", func(t *testing.T) {
		r, f := tuningRig(t)
		f.err = errors.New("the model cannot be loaded as it is")
		one := path(get[api.Tuning](r, 202, "POST", base, api.StartTuning{}).ID)
		close(f.events)
		if got := waitForEnd(t, r, one); got.State != api.TuningFailed || got.Reason != f.err.Error() {
			t.Errorf("result %+v", got)
		}
	})

	t.Run("figures of a model that has changed are not applied", func(t *testing.T) {
		r, f := tuningRig(t)
		one := path(get[api.Tuning](r, 202, "POST", base, api.StartTuning{}).ID)
		f.events <- trial(0, 0, 0, 100)
		f.events <- trial(1, 1, 0, 150, api.TuningText{Model: "ready", After: after})
		close(f.events)
		if got := waitForEnd(t, r, one); got.Stale != api.TuningCurrent {
			t.Errorf("the model is as it was, and the tuning says %q", got.Stale)
		}
		r.Write("ready/config.pbtxt", "max_batch_size: 2\n")
		if got := get[api.Tuning](r, 200, "GET", one, nil); got.Stale != api.TuningStaleConfig {
			t.Errorf("the configuration has changed, and the tuning says %q", got.Stale)
		}
		if err := os.Remove(filepath.Join(r.Repo, "ready", "config.pbtxt")); err != nil {
			t.Fatal(err)
		}
		r.Write("ready/7/model.onnx", "another graph")
		if got := get[api.Tuning](r, 200, "GET", one, nil); got.Stale != api.TuningStaleFiles {
			t.Errorf("there is another version, and the tuning says %q", got.Stale)
		}
		if got := get[api.Error](r, http.StatusConflict, "POST", one+"/apply",
			api.ApplyTuning{Config: 1}); !strings.Contains(got.Error, "tune it again") {
			t.Errorf("applied to another version: %+v", got)
		}
		if _, err := os.Stat(filepath.Join(r.Repo, "ready", "config.pbtxt")); !os.IsNotExist(err) {
			t.Errorf("a configuration was written: %v", err)
		}
	})

	t.Run("a configuration that failed is not applied", func(t *testing.T) {
		r, f := tuningRig(t)
		one := path(get[api.Tuning](r, 202, "POST", base, api.StartTuning{}).ID)
		e := trial(0, -1, -1, 0, api.TuningText{Model: "ready", After: "x"})
		e.Trial.Failed = "no memory"
		f.events <- e
		close(f.events)
		if got := waitForEnd(t, r, one); got.Best != nil || got.Present != nil {
			t.Errorf("result %+v", got)
		}
		get[api.Error](r, 400, "POST", one+"/apply", api.ApplyTuning{Config: 0})
		get[api.Error](r, 404, "POST", one+"/apply", api.ApplyTuning{Config: 1})
	})

	t.Run("one that a server's death left", func(t *testing.T) {
		r, _ := tuningRig(t)
		rec := storedTuning{Tuning: api.Tuning{TuningHead: api.TuningHead{Model: "ready", State: api.TuningRunning,
			Measured: 1}, Trials: []api.TuningTrial{{Rate: 5}}, Now: &api.TuningNow{}}}
		id := stored(t, r, rec)
		got := get[api.Tuning](r, 200, "GET", path(id), nil)
		list := get[api.Tunings](r, 200, "GET", base, nil)
		if got.State != api.TuningStopped || got.Now != nil || len(got.Trials) != 1 ||
			!strings.Contains(got.Reason, "server ended") || list.Tunings[0].State != api.TuningStopped {
			t.Errorf("%+v, %+v", got, list)
		}
		get[api.Error](r, http.StatusConflict, "POST", path(id)+"/stop", nil)
	})

	t.Run("refused", func(t *testing.T) {
		r, _ := tuningRig(t)
		get[api.Error](r, 400, "POST", base, api.StartTuning{Objective: "speed"})
		get[api.Error](r, 404, "POST", "/api/models/nosuch/tunings", api.StartTuning{})
		get[api.Error](r, 404, "POST", base+"/x/stop", nil)
		r.Headers = http.Header{} // another site's page cannot send it
		for _, route := range []string{"/plan", "", "/1/stop", "/1/apply"} {
			get[api.Error](r, http.StatusForbidden, "POST", base+route, nil)
		}
		get[api.Error](r, http.StatusForbidden, "DELETE", base+"/1", nil)
		if list, err := r.Store.Tunings(t.Context(), "ready"); err != nil || len(list) != 0 {
			t.Errorf("a refused tuning is kept: %+v, %v", list, err)
		}
		none := newRig(t, engine.ModeExplicit)
		get[api.Error](none, http.StatusNotImplemented, "POST", base, api.StartTuning{})
	})
}

// What measures, measures alone.
func TestMeasuring(t *testing.T) {
	f := &fakeTuner{events: make(chan tuning.Event)}
	r := serving(t, nil, func(o *console.Options) { o.Tuner = f })
	started := get[api.Tuning](r, 202, "POST", "/api/models/ready/tunings", api.StartTuning{})
	if got := get[api.Error](r, http.StatusConflict, "POST", "/api/models/ready/load-test",
		api.StartLoadTest{From: 1, To: 1, Step: 1}); !strings.Contains(got.Error, "is being tuned") {
		t.Errorf("a load test beside a tuning: %+v", got)
	}
	close(f.events)
	waitForEnd(t, r, fmt.Sprintf("/api/models/ready/tunings/%d", started.ID))
	get[api.LoadTest](r, 202, "POST", "/api/models/ready/load-test",
		api.StartLoadTest{From: 1, To: 64, Step: 1, WindowMs: 60_000})
	if got := get[api.Error](r, http.StatusConflict, "POST", "/api/models/ready/tunings",
		api.StartTuning{}); !strings.Contains(got.Error, "is being measured") {
		t.Errorf("a tuning beside a load test: %+v", got)
	}
	get[api.LoadTest](r, 200, "DELETE", "/api/models/ready/load-test", nil)
	waitForLoadTest(t, r, "ready")
}

// A repository that the server may not write is tuned, and not changed.
func TestTuningOfAReadOnlyModel(t *testing.T) {
	r, _ := tuningRig(t)
	rec := storedTuning{Tuning: api.Tuning{TuningHead: api.TuningHead{Model: "ready", State: api.TuningDone},
		Trials: []api.TuningTrial{{}}},
		Texts: []api.TuningTexts{{Texts: []api.TuningText{{Model: "ready", After: "x"}}}}}
	id := stored(t, r, rec)
	if err := os.Chmod(filepath.Join(r.Repo, "ready"), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(r.Repo, "ready"), 0o755) })
	if folders.Writable(filepath.Join(r.Repo, "ready")) {
		t.Skip("this user may write everywhere")
	}
	if got := get[api.Tunings](r, 200, "GET", "/api/models/ready/tunings", nil); got.Writable ||
		got.WhyNot == "" {
		t.Errorf("%+v", got)
	}
	get[api.Error](r, http.StatusForbidden, "POST", fmt.Sprintf("/api/models/ready/tunings/%d/apply", id),
		api.ApplyTuning{})
}
