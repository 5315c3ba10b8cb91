package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/console/configs"
	"nereid/engine"
	"nereid/store"
)

// A crash between the revision and the file leaves the older text in service: the revision must not say that it was
// saved.
func TestAChangeThatACrashPreventedIsNotShownAsSaved_B23(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	first := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config", api.SaveConfig{Text: "max_batch_size: 2\n"})
	was, lost := "max_batch_size: 2\n", "max_batch_size: 3\n"
	rev, err := r.Store.AddRevision(t.Context(), store.Revision{Model: "ready", Source: store.SourceConsole,
		Before: &was, After: &lost})
	if err != nil {
		t.Fatal(err)
	}
	list := get[api.Revisions](r, 200, "GET", "/api/models/ready/revisions", nil).Revisions
	outcomes := map[int64]api.SaveOutcome{}
	for _, l := range list {
		outcomes[l.ID] = l.Outcome
	}
	if outcomes[rev.ID] != api.SaveFailed || outcomes[first.Revision.ID] != api.SaveLoaded || list[0].Source != "disk" {
		t.Errorf("revisions = %+v", list)
	}
}

// At the start the outcome of a change that a crash cut short is known by the file. Later the file may be another one:
// an import replaces it, or somebody edits it.
func TestOutcomesOfChangesThatACrashCutShortAreSettledAtTheStart_B23(t *testing.T) {
	was, text := "max_batch_size: 2\n", "max_batch_size: 3\n"
	for _, tt := range []struct {
		name, file, reason string
		want               api.SaveOutcome
		left               string
	}{
		{"before the file", was, "", api.SaveFailed, was},
		{"after the file", text, "", api.SaveSaved, text},
		{"before the file, only if it loads", was, configs.OnlyIfLoads, api.SaveFailed, was},
		{"during the load, only if it loads", text, configs.OnlyIfLoads, api.SaveFailed, was},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rev store.Revision
			r := newRig(t, engine.ModeExplicit, func(o *console.Options) {
				err := os.WriteFile(filepath.Join(o.Repositories[0], "ready/config.pbtxt"), []byte(tt.file), 0o644)
				if err != nil {
					t.Fatal(err)
				}
				rev, err = o.Store.AddRevision(t.Context(), store.Revision{Model: "ready",
					Source: store.SourceConsole, Before: &was, After: &text, Reason: tt.reason})
				if err != nil {
					t.Fatal(err)
				}
			})
			if b, err := os.ReadFile(filepath.Join(r.Repo, "ready/config.pbtxt")); err != nil || string(b) != tt.left {
				t.Errorf("after the start the file has %q, %v; want %q", b, err, tt.left)
			}
			im := r.Upload("", map[string]string{"ready/config.pbtxt": "max_batch_size: 7\n",
				"ready/1/model.onnx": "good"})
			if im = commit(r, im, api.ImportCommit{Replace: true}); im.State != api.ImportLoaded {
				t.Fatalf("committed = %+v", im)
			}
			for _, l := range get[api.Revisions](r, 200, "GET", "/api/models/ready/revisions", nil).Revisions {
				if l.ID == rev.ID && l.Outcome != tt.want {
					t.Errorf("the change that was cut short is shown as %q (%s), want %q", l.Outcome, l.Reason, tt.want)
				}
			}
		})
	}
}

// With --model-config-name the configuration that counts is the one that is shown and saved.
func TestTheConfigurationThatCountsIsSaved_A027(t *testing.T) {
	r := newRig(t, engine.ModeExplicit, func(o *console.Options) { o.ConfigName = "gpu" })
	was := map[string]string{"ready/config.pbtxt": "# ready\n", "ready/configs/gpu.pbtxt": "# ready, gpu\n",
		"other/config.pbtxt": "# other\n"}
	for file, text := range was {
		r.Write(file, text)
	}
	r.Write("other/1/model.onnx", "good")
	for model, file := range map[string]string{"ready": "ready/configs/gpu.pbtxt", "other": "other/config.pbtxt"} {
		m := get[api.ModelDetail](r, 200, "GET", "/api/models/"+model, nil)
		if m.ConfigText != was[file] || m.ConfigPath != filepath.Join(r.Repo, file) {
			t.Errorf("%s: %q of %s is shown, want that of %s", model, m.ConfigText, m.ConfigPath, file)
		}
		was[file] = "# saved\n"
		get[api.SaveResult](r, 200, "PUT", "/api/models/"+model+"/config",
			api.SaveConfig{BaseRevision: m.Revision, Text: was[file]})
	}
	for file, want := range was {
		if b, err := os.ReadFile(filepath.Join(r.Repo, file)); err != nil || string(b) != want {
			t.Errorf("%s has %q, %v; want %q", file, b, err, want)
		}
	}
}

// The first edit of a configuration has no revision to begin from. It must not replace what was written on the disk
// since.
func TestTheFirstEditRefusesAFileThatHasChanged(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	r.Write("ready/config.pbtxt", "# on the disk\n")
	save := func(code int, base string) {
		t.Helper()
		m := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
		out := get[map[string]any](r, code, "PUT", "/api/models/ready/config",
			api.SaveConfig{BaseRevision: m.Revision, BaseText: &base, Text: "# from the page\n"})
		if code != 200 && out["code"] != string(api.CodeConflict) {
			t.Errorf("%v, want a conflict", out)
		}
	}
	save(409, "# before\n")
	save(409, "")
	b, err := os.ReadFile(filepath.Join(r.Repo, "ready/config.pbtxt"))
	if err != nil || string(b) != "# on the disk\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
	save(200, "# on the disk\n")
}

func TestConfigSaveReloadAndUndo(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	one := "max_batch_size: 8\n"
	res := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config", api.SaveConfig{Text: one})
	if res.Outcome != api.SaveLoaded || res.Revision.Added != 1 || res.Revision.Source != "console" {
		t.Fatalf("first save = %+v", res)
	}
	if m := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil); m.MaxBatchSize != 8 ||
		m.ConfigText != one || m.RunningText != one || m.Revision != res.Revision.ID {
		t.Errorf("after the save: %+v", m)
	}
	if code, body := r.Call("PUT", "/api/models/ready/config", api.SaveConfig{Text: "max_batch_size: 2\n",
		BaseRevision: 0}); code != 409 {
		t.Errorf("save on an old base = %d %s, want 409", code, body)
	}
	code, body := r.Call("PUT", "/api/models/ready/config", api.SaveConfig{Text: "max_batch_sice: 2\n",
		BaseRevision: res.Revision.ID})
	var e api.Error
	if err := json.Unmarshal(body, &e); err != nil || code != 400 || len(e.Faults) == 0 || e.Faults[0].Line != 1 ||
		e.Faults[0].EndCol <= e.Faults[0].Col {
		t.Errorf("save with a fault = %d %s, want 400 and its place", code, body)
	}
	// A text without a fault that does not load: the old one keeps serving.
	r.Write("ready/1/model.onnx", "bad now, but readable")
	two := "max_batch_size: 3\n"
	res2 := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config",
		api.SaveConfig{Text: two, BaseRevision: res.Revision.ID})
	if res2.Outcome != api.SaveFailed || !res2.KeepsServing || !strings.Contains(res2.Reason, "broken") {
		t.Fatalf("save that does not load = %+v", res2)
	}
	d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if d.State != api.StateReady || d.ConfigText != two || d.RunningText != one {
		t.Errorf("after the failed reload: state %s, text %q, running %q; want the first to run", d.State,
			d.ConfigText, d.RunningText)
	}
	r.Write("ready/1/model.onnx", "good")
	undo := get[api.SaveResult](r, 200, "POST", fmt.Sprintf("/api/models/ready/revisions/%d/restore",
		res2.Revision.ID),
		api.RestoreRequest{BaseRevision: res2.Revision.ID, Before: true})
	if undo.Outcome != api.SaveLoaded || undo.Revision.Restores != res2.Revision.ID ||
		undo.Revision.Source != "restore" {
		t.Errorf("undo = %+v", undo)
	}
	// To the time before the first save: there was no file.
	none := get[api.SaveResult](r, 200, "POST", fmt.Sprintf("/api/models/ready/revisions/%d/restore",
		res.Revision.ID),
		api.RestoreRequest{BaseRevision: undo.Revision.ID, Before: true})
	if _, err := os.Stat(filepath.Join(r.Repo, "ready/config.pbtxt")); !os.IsNotExist(err) ||
		none.Outcome != api.SaveLoaded {
		t.Errorf("restore of no file: %v, %+v", err, none)
	}
	// A change on disk becomes a revision.
	r.Write("ready/config.pbtxt", "max_batch_size: 5\n")
	list := get[api.Revisions](r, 200, "GET", "/api/models/ready/revisions", nil)
	if len(list.Revisions) != 5 || list.Revisions[0].Source != "disk" {
		t.Fatalf("revisions = %+v", list)
	}
	full := get[api.RevisionFull](r, 200, "GET", fmt.Sprintf("/api/models/ready/revisions/%d",
		list.Revisions[0].ID), nil)
	if full.Before != "" || full.After != "max_batch_size: 5\n" {
		t.Errorf("revision = %+v", full)
	}
	if code, _ := r.Call("GET", "/api/models/other/revisions/1", nil); code != 404 {
		t.Errorf("a revision of another model = %d, want 404", code)
	}
}

// One version is loaded and unloaded from the page; each change is a revision that can be undone.
func TestLoadsOfSingleVersionsAreRevisions(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	r.Write("ready/2/model.onnx", "good")
	r.Write("ready/3/model.onnx", "good")
	get[api.LoadResult](r, 200, "POST", "/api/models/ready/load", nil) // by the policy: the latest
	serving := func() (all []string) {
		for _, v := range get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil).Versions {
			if v.State == api.StateReady {
				all = append(all, v.Version)
			}
		}
		return all
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if got := serving(); !slices.Equal(got, want) {
			t.Errorf("%s: versions %v serve, want %v", what, got, want)
		}
	}
	expect("at first", "3")
	d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if !slices.Contains(d.OtherVersions, "2") {
		t.Errorf("other versions = %v, want 2 among them", d.OtherVersions)
	}
	if res := get[api.LoadResult](r, 200, "POST", "/api/models/ready/versions/2/load", nil); !res.OK {
		t.Fatalf("load of version 2 = %+v", res)
	}
	expect("after the load", "2", "3")
	if res := get[api.LoadResult](r, 200, "POST", "/api/models/ready/versions/3/unload", nil); !res.OK {
		t.Fatalf("unload of version 3 = %+v", res)
	}
	expect("after the unload", "2")
	if res := get[api.LoadResult](r, 200, "POST", "/api/models/ready/versions/9/load", nil); res.OK ||
		!strings.Contains(res.Reason, "version 9 is not in the model repository") || !res.KeepsServing {
		t.Errorf("load of version 9 = %+v", res)
	}
	if code, _ := r.Call("POST", "/api/models/ready/versions/x/load", nil); code != 404 {
		t.Errorf("load of version x = %d, want 404", code)
	}
	list := get[api.Revisions](r, 200, "GET", "/api/models/ready/revisions", nil).Revisions
	if len(list) != 2 || list[0].Source != "versions" || list[0].Removed != 1 || list[1].Added != 1 {
		t.Fatalf("revisions = %+v", list)
	}
	full := get[api.RevisionFull](r, 200, "GET", fmt.Sprintf("/api/models/ready/revisions/%d", list[0].ID),
		nil)
	if full.Before != "2\n3\n" || full.After != "2\n" {
		t.Errorf("the unload is recorded as %q to %q", full.Before, full.After)
	}
	undo := get[api.SaveResult](r, 200, "POST", fmt.Sprintf("/api/models/ready/revisions/%d/restore",
		list[0].ID), api.RestoreRequest{Before: true})
	if undo.Outcome != api.SaveLoaded || undo.Revision.Source != "versions" {
		t.Errorf("undo = %+v", undo)
	}
	expect("after the undo", "2", "3")
	// The configuration's revisions do not get mixed up with these.
	saved := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config",
		api.SaveConfig{Text: "max_batch_size: 8\n"})
	if saved.Outcome != api.SaveLoaded {
		t.Errorf("save = %+v", saved)
	}
}

// A configuration that a load request brings is a revision, and the one before can be had back.
func TestOverrideRevisions(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	r.Write("ready/config.pbtxt", "max_batch_size: 8\n")
	get[api.LoadResult](r, 200, "POST", "/api/models/ready/load", nil)
	batch := func() int {
		return get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil).MaxBatchSize
	}
	if err := r.Engine.LoadModel(t.Context(), "ready",
		engine.LoadParameters{ConfigJSON: `{"max_batch_size":3}`}); err != nil {
		t.Fatal(err)
	}
	if got := batch(); got != 3 {
		t.Errorf("max_batch_size %d, want 3", got)
	}
	list := get[api.Revisions](r, 200, "GET", "/api/models/ready/revisions", nil).Revisions
	if len(list) != 1 || list[0].Source != "override" {
		t.Fatalf("revisions = %+v", list)
	}
	full := get[api.RevisionFull](r, 200, "GET", fmt.Sprintf("/api/models/ready/revisions/%d", list[0].ID),
		nil)
	if full.Before != "max_batch_size: 8\n" || !strings.Contains(full.After, "max_batch_size: 3") {
		t.Errorf("the override is recorded as %q to %q", full.Before, full.After)
	}
	for _, step := range []struct {
		before bool
		want   int
	}{{true, 8}, {false, 3}} {
		res := get[api.SaveResult](r, 200, "POST", fmt.Sprintf("/api/models/ready/revisions/%d/restore",
			list[0].ID), api.RestoreRequest{Before: step.before})
		if res.Outcome != api.SaveLoaded || batch() != step.want {
			t.Errorf("restore (before: %v) = %+v, max_batch_size %d, want %d", step.before, res, batch(), step.want)
		}
	}
}

// A model whose file is damaged can have its configuration mended; the reload says what comes of it.
func TestAConfigurationCanBeSavedBesideADamagedFile(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	if err := os.WriteFile(filepath.Join(r.Repo, "ready", "1", "model.onnx"), []byte("bad file"), 0o600); err != nil {
		t.Fatal(err)
	}
	const text = `backend: "onnxruntime"
max_batch_size: 2
input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
`
	check := get[api.CheckResult](r, 200, "POST", "/api/config/check",
		api.CheckRequest{Model: "ready", Text: text})
	if len(check.Faults) != 1 || check.Faults[0].Severity != api.SeverityWarning {
		t.Errorf("faults = %+v, want the file's as a warning", check.Faults)
	}
	res := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config", api.SaveConfig{Text: text})
	if res.Outcome != api.SaveFailed || res.Reason == "" {
		t.Errorf("saving = %+v, want saved and the reload's failure", res)
	}
}

// After a reload that failed, the page describes what serves, and names the configuration that failed beside it.
func TestAFailedReloadLeavesThePageWithTheConfigurationInService(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	first := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config", api.SaveConfig{Text: "max_batch_size: 8\n"})
	if d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil); d.Failed != nil {
		t.Errorf("after a good save: failed = %+v", d.Failed)
	}
	r.Write("ready/1/model.onnx", "bad now, but readable")
	failing := "max_batch_size: 3\ndynamic_batching { }\n"
	bad := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config",
		api.SaveConfig{Text: failing, BaseRevision: first.Revision.ID})
	if bad.Outcome != api.SaveFailed || !bad.KeepsServing {
		t.Fatalf("save that does not load = %+v", bad)
	}
	d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if d.MaxBatchSize != 8 {
		t.Errorf("batch size %d, want the one in service, 8", d.MaxBatchSize)
	}
	if f := d.Failed; f == nil || !f.Readable || f.MaxBatchSize != 3 || !f.DynamicBatching || len(f.Inputs) != 1 ||
		f.Revision != bad.Revision.ID {
		t.Errorf("failed configuration = %+v", f)
	}
	for _, m := range get[api.Models](r, 200, "GET", "/api/models", nil).Models {
		if m.Name == "ready" && (m.MaxBatchSize != 8 || m.Reason == "" && m.Versions[0].Reason == "") {
			t.Errorf("in the list: %+v, want the batch size in service and the reason", m)
		}
	}
	r.Write("ready/1/model.onnx", "good")
	get[api.SaveResult](r, 200, "POST", fmt.Sprintf("/api/models/ready/revisions/%d/restore", d.Failed.Revision),
		api.RestoreRequest{BaseRevision: d.Revision, Before: true})
	if d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil); d.Failed != nil || d.MaxBatchSize != 8 {
		t.Errorf("after the undo: failed = %+v, batch size %d", d.Failed, d.MaxBatchSize)
	}
}

func TestASaveOnlyIfItLoadsPutsTheFileBack(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	first := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config",
		api.SaveConfig{Text: "max_batch_size: 8\n", OnlyIfLoads: true})
	if first.Outcome != api.SaveLoaded {
		t.Fatalf("a save that loads = %+v", first)
	}
	// max_batch_size needs a new load, which the backend refuses; the version in service is not touched.
	r.Write("ready/1/model.onnx", "bad now, but readable")
	bad := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config",
		api.SaveConfig{Text: "max_batch_size: 3\n", BaseRevision: first.Revision.ID, OnlyIfLoads: true})
	if bad.Outcome != api.SaveUndone || !strings.Contains(bad.Reason, "broken") ||
		bad.Revision.Restores == 0 || bad.Revision.Source != "restore" {
		t.Fatalf("a save that does not load = %+v", bad)
	}
	d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if d.ConfigText != "max_batch_size: 8\n" || d.State != api.StateReady || d.MaxBatchSize != 8 || d.Failed != nil ||
		d.Revision != bad.Revision.ID {
		t.Errorf("afterwards: %q, %s, batch size %d, failed %+v, revision %d", d.ConfigText, d.State, d.MaxBatchSize,
			d.Failed, d.Revision)
	}
	list := get[api.Revisions](r, 200, "GET", "/api/models/ready/revisions", nil).Revisions
	if len(list) != 3 || list[1].Outcome != api.SaveFailed || list[0].Restores != list[1].ID {
		t.Errorf("revisions = %+v, want the failed one and the way back", list)
	}
}
