package console_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/console/models"
	"nereid/engine"
	"nereid/engine/backend/python"
)

func TestWarmupOfASequenceModel(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	r.Write("sums/config.pbtxt", `backend: "sequence" max_batch_size: 1
input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
sequence_batching { control_input [
  { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
  { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } } ] }`)
	r.Write("sums/1/keep", "")
	if l := get[api.LoadResult](r, 200, "POST", "/api/models/sums/load", nil); !l.OK || !l.Model.Sequences {
		t.Fatalf("load = %+v", l)
	}
	if w := get[api.WarmupResult](r, 200, "POST", "/api/models/sums/warmup",
		api.WarmupRequest{Count: 10}); len(w.SamplesUs) != 10 || w.SettledUs <= 0 {
		t.Errorf("warmup = %+v", w)
	}
}

func TestWarmup(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	w := get[api.WarmupResult](r, 200, "POST", "/api/models/ready/warmup",
		api.WarmupRequest{Count: 10, Batch: 2})
	if len(w.SamplesUs) != 10 || w.FirstUs <= 0 || w.SettledUs <= 0 || w.Source != "zeros" || w.Batch != 2 ||
		w.Version != "1" {
		t.Errorf("warmup = %+v", w)
	}
	for _, tt := range []struct {
		req  api.WarmupRequest
		want int
	}{
		{api.WarmupRequest{Count: 1}, 400}, {api.WarmupRequest{Batch: 5}, 400}, {api.WarmupRequest{Version: "7"}, 503},
	} {
		if code, body := r.Call("POST", "/api/models/ready/warmup", tt.req); code != tt.want {
			t.Errorf("warmup %+v = %d %s, want %d", tt.req, code, body, tt.want)
		}
	}
}

func TestDeleteAndRestore(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	events := r.Stream("models")
	if e := next[api.ModelsEvent](events, "models"); !e.Full || len(e.Models) != 1 {
		t.Errorf("the first event = %+v, want the whole list", e)
	}
	item := get[api.Trashed](r, 200, "DELETE", "/api/models/ready", nil)
	if _, err := os.Stat(filepath.Join(r.Repo, "ready")); !os.IsNotExist(err) || item.Model != "ready" {
		t.Fatalf("delete: %v, %+v", err, item)
	}
	for len(next[api.ModelsEvent](events, "models").Removed) == 0 {
		continue // UNLOADING first
	}
	if code, _ := r.Call("GET", "/api/models/ready", nil); code != 404 {
		t.Errorf("a deleted model = %d, want 404", code)
	}
	list := get[api.Trash](r, 200, "GET", "/api/trash", nil)
	if len(list.Items) != 1 || list.Items[0].ID != item.ID {
		t.Fatalf("trash = %+v", list)
	}
	get[api.Trashed](r, 200, "POST", "/api/trash/"+item.ID+"/restore", nil)
	if m := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil); m.State != api.StateReady {
		t.Errorf("after the restore: %+v", m)
	}
	for _, id := range []string{item.ID, "..", "%2e%2e%2fmodels", "x"} {
		if code, body := r.Call("POST", "/api/trash/"+id+"/restore", nil); code != 404 && code != 405 {
			t.Errorf("restore of %s = %d %s, want 404", id, code, body)
		}
	}
}

func TestPin(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	if m := get[api.Model](r, 200, "PUT", "/api/models/ready/pin", api.SetPin{Pinned: true}); !m.Pinned ||
		!m.Resident || m.MemorySource == "" && m.MemoryBytes != 0 {
		t.Errorf("pinned: %+v", m)
	}
	pins, err := models.Pins(t.Context(), r.Store)
	if err != nil || !pins["ready"] {
		t.Errorf("Pins = %v, %v; want ready", pins, err)
	}
	if m := get[api.Model](r, 200, "PUT", "/api/models/ready/pin", api.SetPin{}); m.Pinned {
		t.Errorf("not pinned any more: %+v", m)
	}
	if code, _ := r.Call("PUT", "/api/models/nosuch/pin", api.SetPin{Pinned: true}); code != 404 {
		t.Errorf("pin of no model = %d, want 404", code)
	}
	if err := r.Engine.Evict("ready"); err != nil {
		t.Fatal(err)
	}
	m := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if m.State != api.StateReady || m.Resident || !m.Versions[0].Evicted || len(m.Inputs) == 0 {
		t.Errorf("evicted: %+v", m.Model)
	}
}

// Two models of one name are two models to the page: each with its own folder, configuration and revisions.
func TestNamespaces_A076(t *testing.T) {
	const config = "backend: \"onnxruntime\"\nmax_batch_size: "
	roots := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")}
	for i, root := range roots {
		if err := os.MkdirAll(root+"/m/1", 0o755); err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{"/m/config.pbtxt": config + []string{"4", "8"}[i] + "\n",
			"/m/1/model.onnx": "good"} {
			if err := os.WriteFile(root+path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := newRig(t, engine.ModeExplicit, func(o *console.Options) {
		e, err := engine.New(engine.Options{
			ModelOptions: engine.ModelOptions{Repositories: roots, Namespaces: true, Backends: o.Check.Backends},
			Mode:         engine.ModeExplicit, StartupModels: []string{"*"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close(context.Background()) })
		o.Engine, o.Repositories, o.Namespaces = e, roots, true
	})
	var names []string
	for _, m := range get[api.Models](r, 200, "GET", "/api/models", nil).Models {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	want := []string{roots[0] + "/m", roots[1] + "/m"}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Fatalf("models %v, want %v", names, want)
	}
	at := func(root string) string { return "/api/models/" + url.PathEscape(root+"/m") }
	for i, root := range roots {
		if d := get[api.ModelDetail](r, 200, "GET", at(root), nil); d.MaxBatchSize != []int{4, 8}[i] ||
			d.Folder != root+"/m" || d.State != api.StateReady {
			t.Errorf("model of %s = %+v", root, d)
		}
	}
	saved := get[api.SaveResult](r, 200, "PUT", at(roots[1])+"/config",
		api.SaveConfig{Text: config + "16\n"})
	if saved.Outcome != api.SaveLoaded {
		t.Errorf("saved = %+v", saved)
	}
	if text, err := os.ReadFile(roots[0] + "/m/config.pbtxt"); err != nil || !strings.HasSuffix(string(text), "4\n") {
		t.Errorf("the other one's configuration is %q, %v", text, err)
	}
	if d := get[api.ModelDetail](r, 200, "GET", at(roots[1]), nil); d.MaxBatchSize != 16 {
		t.Errorf("after the change: %+v", d)
	}
	if code, _ := r.Call("GET", "/api/models/"+url.PathEscape("/etc/m"), nil); code != 400 {
		t.Errorf("another folder as namespace = %d, want 400", code)
	}
}

func TestConditionsOfModels(t *testing.T) {
	var installing atomic.Bool
	r := newRig(t, engine.ModeExplicit, func(o *console.Options) {
		o.Environment = func(model string) (python.EnvironmentUse, bool) {
			return python.EnvironmentUse{State: python.EnvironmentBuilding}, model == "ready" && installing.Load()
		}
	})
	condition := func() (model, version api.Condition) {
		m := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
		return m.Condition, m.Versions[0].Condition
	}
	if m, v := condition(); m != api.ConditionNone || v != api.ConditionNone {
		t.Errorf("in service: %q, %q", m, v)
	}
	installing.Store(true) // for a reload: the version in service stays
	if m, v := condition(); m != api.ConditionInstalling || v != api.ConditionNone {
		t.Errorf("in service, while packages are installed: %q, %q", m, v)
	}
	installing.Store(false)
	get[api.LoadResult](r, 200, "POST", "/api/models/ready/unload", nil)
	deadline := time.After(time.Minute) // the reply does not wait until the version is closed
	for m, v := condition(); m != api.ConditionNone || v != api.ConditionUnloaded; m, v = condition() {
		select {
		case <-deadline:
			t.Fatalf("unloaded: %q, %q", m, v)
		case <-time.After(10 * time.Millisecond): // asks as the page does
		}
	}
	installing.Store(true)
	if m, v := condition(); m != api.ConditionInstalling || v != api.ConditionInstalling {
		t.Errorf("unloaded, while packages are installed: %q, %q", m, v)
	}
}
