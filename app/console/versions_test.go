package console

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/engine"
)

// One version is loaded and unloaded from the page; each change is a revision that can be undone.
func TestOneVersionAloneAndItsRevisions(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	r.write("ready/2/model.onnx", "good")
	r.write("ready/3/model.onnx", "good")
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
	if res := get[api.LoadResult](r, 200, "POST", "/api/models/ready/versions/9/load", nil); res.OK || !strings.Contains(res.Reason, "version 9 is not in the model repository") || !res.KeepsServing {
		t.Errorf("load of version 9 = %+v", res)
	}
	if code, _ := r.call("POST", "/api/models/ready/versions/x/load", nil); code != 404 {
		t.Errorf("load of version x = %d, want 404", code)
	}
	list := get[api.Revisions](r, 200, "GET", "/api/models/ready/revisions", nil).Revisions
	if len(list) != 2 || list[0].Source != "versions" || list[0].Removed != 1 || list[1].Added != 1 {
		t.Fatalf("revisions = %+v", list)
	}
	full := get[api.RevisionFull](r, 200, "GET", fmt.Sprintf("/api/models/ready/revisions/%d", list[0].ID), nil)
	if full.Before != "2\n3\n" || full.After != "2\n" {
		t.Errorf("the unload is recorded as %q to %q", full.Before, full.After)
	}
	undo := get[api.SaveResult](r, 200, "POST", fmt.Sprintf("/api/models/ready/revisions/%d/restore", list[0].ID), api.RestoreRequest{Before: true})
	if undo.Outcome != api.SaveLoaded || undo.Revision.Source != "versions" {
		t.Errorf("undo = %+v", undo)
	}
	expect("after the undo", "2", "3")
	// The configuration's revisions do not get mixed up with these.
	saved := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config", api.SaveConfig{Text: "max_batch_size: 8\n"})
	if saved.Outcome != api.SaveLoaded {
		t.Errorf("save = %+v", saved)
	}
}

// A configuration that a load request brings is a revision, and the one before can be had back.
func TestOverrideRevisions(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	r.write("ready/config.pbtxt", "max_batch_size: 8\n")
	get[api.LoadResult](r, 200, "POST", "/api/models/ready/load", nil)
	batch := func() int { return get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil).MaxBatchSize }
	if err := r.e.LoadModel(t.Context(), "ready", engine.LoadParameters{ConfigJSON: `{"max_batch_size":3}`}); err != nil {
		t.Fatal(err)
	}
	if got := batch(); got != 3 {
		t.Errorf("max_batch_size %d, want 3", got)
	}
	list := get[api.Revisions](r, 200, "GET", "/api/models/ready/revisions", nil).Revisions
	if len(list) != 1 || list[0].Source != "override" {
		t.Fatalf("revisions = %+v", list)
	}
	full := get[api.RevisionFull](r, 200, "GET", fmt.Sprintf("/api/models/ready/revisions/%d", list[0].ID), nil)
	if full.Before != "max_batch_size: 8\n" || !strings.Contains(full.After, "max_batch_size: 3") {
		t.Errorf("the override is recorded as %q to %q", full.Before, full.After)
	}
	for _, step := range []struct {
		before bool
		want   int
	}{{true, 8}, {false, 3}} {
		res := get[api.SaveResult](r, 200, "POST", fmt.Sprintf("/api/models/ready/revisions/%d/restore", list[0].ID), api.RestoreRequest{Before: step.before})
		if res.Outcome != api.SaveLoaded || batch() != step.want {
			t.Errorf("restore (before: %v) = %+v, max_batch_size %d, want %d", step.before, res, batch(), step.want)
		}
	}
}

func TestPin(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	if m := get[api.Model](r, 200, "PUT", "/api/models/ready/pin", api.SetPin{Pinned: true}); !m.Pinned || !m.Resident || m.MemorySource == "" && m.MemoryBytes != 0 {
		t.Errorf("pinned: %+v", m)
	}
	pins, err := Pins(t.Context(), r.store)
	if err != nil || !pins["ready"] {
		t.Errorf("Pins = %v, %v; want ready", pins, err)
	}
	if m := get[api.Model](r, 200, "PUT", "/api/models/ready/pin", api.SetPin{}); m.Pinned {
		t.Errorf("not pinned any more: %+v", m)
	}
	if code, _ := r.call("PUT", "/api/models/nosuch/pin", api.SetPin{Pinned: true}); code != 404 {
		t.Errorf("pin of no model = %d, want 404", code)
	}
	if err := r.e.Evict("ready"); err != nil {
		t.Fatal(err)
	}
	m := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if m.State != api.StateReady || m.Resident || !m.Versions[0].Evicted || len(m.Inputs) == 0 {
		t.Errorf("evicted: %+v", m.Model)
	}
}
