package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"nereid/app/console/api"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/store"
)

// fileBackend stands for ONNX Runtime: it serves identity for a file that says good, and refuses one that says bad.
type fileBackend struct{ backend.Backend }

func (fileBackend) Name() string { return "onnxruntime" }

func (b fileBackend) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	if err := b.read(s); err != nil {
		return nil, err
	}
	return b.Backend.Load(ctx, s)
}

func (fileBackend) read(s backend.Spec) error {
	text, err := os.ReadFile(filepath.Join(s.VersionFolder, "model.onnx"))
	if err != nil {
		return status.Errorf(status.NotFound, "model file: %w", err)
	}
	if strings.HasPrefix(string(text), "bad") {
		return status.New(status.InvalidArg, "the model file is broken")
	}
	return nil
}

func (b fileBackend) Signature(_ context.Context, s backend.Spec) (*modelconfig.Signature, error) {
	text, err := os.ReadFile(filepath.Join(s.VersionFolder, "model.onnx"))
	if err != nil || strings.HasPrefix(string(text), "bad file") {
		return nil, status.New(status.InvalidArg, "the model file "+filepath.Join(s.VersionFolder, "model.onnx")+" cannot be read")
	}
	io := func(name string) []modelconfig.IO {
		return []modelconfig.IO{{Name: name, DataType: tensor.FP32, Dims: []int64{-1, 4}, DimNames: []string{"batch", ""}}}
	}
	return &modelconfig.Signature{Platform: "onnxruntime_onnx", Backend: "onnxruntime", Inputs: io("INPUT0"), Outputs: io("OUTPUT0")}, nil
}

// rig is a console with a real engine, store and recorder.
type rig struct {
	t       *testing.T
	c       *Console
	e       *engine.Engine
	store   *store.Store
	repo    string
	data    string
	server  *httptest.Server
	headers http.Header // of every request
}

func newRig(t *testing.T, mode engine.ControlMode, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, repo: filepath.Join(t.TempDir(), "models"), data: filepath.Join(t.TempDir(), "data"), headers: http.Header{"X-Nereid": {"1"}}}
	if err := os.MkdirAll(r.repo, 0o755); err != nil {
		t.Fatal(err)
	}
	r.write("ready/1/model.onnx", "good")
	var err error
	if r.store, err = store.Open(t.Context(), r.data, store.Options{}); err != nil {
		t.Fatal(err)
	}
	rec := history.New(nil, r.store)
	var identity backend.Backend
	for _, b := range builtin.All() {
		if b.Name() == "identity" {
			identity = b
		}
	}
	backends := append(builtin.All(), fileBackend{identity})
	r.e, err = engine.New(engine.Options{Repositories: []string{r.repo}, Backends: backends, Mode: mode, PollInterval: 50 * time.Millisecond,
		Settle: 20 * time.Millisecond, StartupModels: []string{"*"},
		Events: engine.EventListener{Loaded: func(m string, v int64, d time.Duration, _ bool) {
			rec.Event(history.Event{Kind: history.Load, Model: m, Version: v, Detail: history.Took(d)})
		}, VersionsChosen: func(m string, before, after []int64) {
			if _, err := r.store.AddRevision(context.Background(), VersionsRevision(m, before, after)); err != nil {
				t.Error(err)
			}
		}, Overridden: func(m, before, config string) {
			if _, err := r.store.AddRevision(context.Background(), OverrideRevision(m, before, config)); err != nil {
				t.Error(err)
			}
		}}})
	if err != nil {
		t.Fatal(err)
	}
	rec.SetSource(r.e)
	if err := r.e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := Options{Engine: r.e, Store: r.store, Recorder: rec, Backends: backends, Repositories: []string{r.repo}, DataDir: r.data,
		Page: fstest.MapFS{"index.html": {Data: []byte("<p>page")}}, AutoComplete: true, DefaultMaxBatchSize: 4, Version: "test"}
	for _, f := range change {
		f(&o)
	}
	if r.c, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	recorded := make(chan error, 1)
	go func() { recorded <- rec.Run(ctx) }()
	r.server = httptest.NewUnstartedServer(nil)
	r.server.Config = r.c.Server()
	r.server.Start()
	t.Cleanup(func() {
		if err := r.c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		r.server.Close()
		cancel()
		if err := <-recorded; err != nil {
			t.Errorf("recorder: %v", err)
		}
		r.e.Close(context.Background())
		if err := r.store.Close(); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	return r
}

func (r *rig) write(path, text string) {
	r.t.Helper()
	p := filepath.Join(r.repo, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// call sends a request with a JSON body (or an io.Reader's bytes) and answers status and body.
func (r *rig) call(method, path string, body any) (int, []byte) {
	r.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		in = b
	default:
		text, err := json.Marshal(b)
		if err != nil {
			r.t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	for k, v := range r.headers {
		req.Header[k] = v
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, out
}

// get is call with a wanted status, decoded into a T.
func get[T any](r *rig, want int, method, path string, body any) T {
	r.t.Helper()
	code, out := r.call(method, path, body)
	var v T
	if code != want {
		r.t.Fatalf("%s %s = %d %s, want %d", method, path, code, out, want)
	}
	if len(out) > 0 {
		if err := json.Unmarshal(out, &v); err != nil {
			r.t.Fatalf("%s %s: %v in %s", method, path, err, out)
		}
	}
	return v
}

func TestRoutesAreServed(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	for _, route := range api.Routes() {
		req := httptest.NewRequest(route.Method, strings.NewReplacer("{", "", "}", "", "...", "").Replace(route.Path), nil)
		_, pattern := r.c.routes().Handler(req)
		if want := route.Method + " " + route.Path; pattern != want {
			t.Errorf("%s is served by %q", want, pattern)
		}
	}
}

func TestEventKindsAreTheSame(t *testing.T) {
	for kind, want := range map[string]api.EventKind{
		history.ServerStart: api.EventServerStart, history.ServerStop: api.EventServerStop, history.Load: api.EventLoad,
		history.LoadFailed: api.EventLoadFailed, history.Reload: api.EventReload, history.ReloadFailed: api.EventReloadFailed,
		history.Unload: api.EventUnload, history.Evict: api.EventEvict, history.Import: api.EventImport, history.ImportFailed: api.EventImportFailed,
		history.ConfigSaved: api.EventConfigSaved, history.ConfigRestored: api.EventConfigRestored, history.ModelDeleted: api.EventModelDeleted,
		history.ModelRestored: api.EventModelRestored, history.RepositoryError: api.EventRepositoryError,
		history.ClientError: api.EventClientError, history.HistoryDropped: api.EventHistoryDropped,
	} {
		if string(want) != kind {
			t.Errorf("kind %q is %q to the page", kind, want)
		}
	}
}

func TestServerAndModels(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	s := get[api.Server](r, 200, "GET", "/api/server", nil)
	if !s.Live || !s.Ready || s.ModelControlMode != "explicit" || len(s.Repositories) != 1 || s.Repositories[0].Models != 1 ||
		!s.Repositories[0].Writable || s.TritonVersion != "2.51.0" || s.Process.PID != os.Getpid() || s.Process.RSSBytes == 0 {
		t.Errorf("server = %+v", s)
	}
	m := get[api.Models](r, 200, "GET", "/api/models", nil)
	if len(m.Models) != 1 || m.Models[0].Name != "ready" || m.Models[0].State != api.StateReady || m.Models[0].MaxBatchSize != 4 ||
		m.Models[0].ConfigExists || len(m.Models[0].Versions[0].LastMinute.Spark) != 60 {
		t.Errorf("models = %+v", m)
	}
	d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if len(d.Files) != 1 || d.Files[0].Path != "1/model.onnx" || !d.Writable || !strings.Contains(d.CompletedText, "max_batch_size: 4") ||
		len(d.Inputs) != 1 || d.Inputs[0].DimNames[0] != "batch" || d.Inputs[0].Shape[0] != -1 || len(d.Effective) < 10 {
		t.Errorf("detail = %+v", d)
	}
	for _, path := range []string{"/api/models/nope", "/api/models/..%2fmodels", "/api/nothing", "/api/models/nope/archive"} {
		if code, body := r.call("GET", path, nil); code != 404 && code != 400 {
			t.Errorf("GET %s = %d %s", path, code, body)
		}
	}
	if code, body := r.call("GET", "/", nil); code != 200 || string(body) != "<p>page" {
		t.Errorf("the page = %d %s", code, body)
	}
	l := get[api.LoadResult](r, 200, "POST", "/api/models/ready/unload", nil)
	if !l.OK || l.Model.State != api.StateUnavailable && l.Model.State != api.StateUnloading {
		t.Errorf("unload = %+v", l)
	}
	r.write("ready/1/model.onnx", "bad")
	l = get[api.LoadResult](r, 200, "POST", "/api/models/ready/load", nil)
	if l.OK || l.KeepsServing || !strings.Contains(l.Reason, "broken") {
		t.Errorf("load of a broken file = %+v", l)
	}
}

func TestWarmupOfASequenceModel(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	r.write("sums/config.pbtxt", `backend: "sequence" max_batch_size: 1
input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ] output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
sequence_batching { control_input [
  { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
  { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } } ] }`)
	r.write("sums/1/keep", "")
	if l := get[api.LoadResult](r, 200, "POST", "/api/models/sums/load", nil); !l.OK || !l.Model.Sequences {
		t.Fatalf("load = %+v", l)
	}
	if w := get[api.WarmupResult](r, 200, "POST", "/api/models/sums/warmup", api.WarmupRequest{Count: 10}); len(w.SamplesUs) != 10 || w.SettledUs <= 0 {
		t.Errorf("warmup = %+v", w)
	}
}

func TestWarmup(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	w := get[api.WarmupResult](r, 200, "POST", "/api/models/ready/warmup", api.WarmupRequest{Count: 10, Batch: 2})
	if len(w.SamplesUs) != 10 || w.FirstUs <= 0 || w.SettledUs <= 0 || w.Source != "zeros" || w.Batch != 2 || w.Version != "1" {
		t.Errorf("warmup = %+v", w)
	}
	for _, tt := range []struct {
		req  api.WarmupRequest
		want int
	}{
		{api.WarmupRequest{Count: 1}, 400}, {api.WarmupRequest{Batch: 5}, 400}, {api.WarmupRequest{Version: "7"}, 503},
	} {
		if code, body := r.call("POST", "/api/models/ready/warmup", tt.req); code != tt.want {
			t.Errorf("warmup %+v = %d %s, want %d", tt.req, code, body, tt.want)
		}
	}
}

func TestGuard(t *testing.T) {
	r := newRig(t, engine.ModeExplicit, func(o *Options) { o.AllowedHosts = []string{"gpu-box"}; o.Window = true })
	for _, tt := range []struct {
		name, method, path string
		host               string
		header             map[string]string
		want               int
	}{
		{"loopback", "GET", "/api/server", "127.0.0.1:8003", nil, 200},
		{"localhost", "GET", "/api/server", "localhost:8003", nil, 200},
		{"IPv6", "GET", "/api/server", "[::1]:8003", nil, 200},
		{"an allowed name", "GET", "/api/server", "GPU-box", nil, 200},
		{"H1 DNS rebinding", "GET", "/api/server", "evil.example:8003", nil, 421},
		{"H1 DNS rebinding of the page", "GET", "/", "evil.example", nil, 421},
		{"an address that is not loopback", "GET", "/api/server", "192.168.1.5", nil, 421},
		{"a name that begins like localhost", "GET", "/api/server", "localhost.evil.example", nil, 421},
		{"no host", "GET", "/api/server", "", nil, 421},
		{"same origin", "POST", "/api/client-errors", "localhost:8003", map[string]string{"Origin": "http://localhost:8003", "X-Nereid": "1"}, 204},
		{"H2 foreign origin", "POST", "/api/client-errors", "localhost:8003", map[string]string{"Origin": "http://evil.example", "X-Nereid": "1"}, 403},
		{"other port", "POST", "/api/client-errors", "localhost:8003", map[string]string{"Origin": "http://localhost:8004", "X-Nereid": "1"}, 403},
		{"origin null", "POST", "/api/client-errors", "localhost:8003", map[string]string{"Origin": "null", "X-Nereid": "1"}, 403},
		{"the window", "POST", "/api/client-errors", "localhost:8003", map[string]string{"Origin": "wails://wails", "X-Nereid": "1"}, 204},
		{"H4 stream from a foreign origin", "GET", "/api/events", "localhost:8003", map[string]string{"Origin": "http://evil.example"}, 403},
		{"H2 image tag on another site", "GET", "/api/models", "localhost:8003", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"link on another site", "GET", "/", "localhost:8003", map[string]string{"Sec-Fetch-Site": "cross-site"}, 200},
		{"H2 form without preflight", "POST", "/api/models/ready/unload", "localhost:8003", map[string]string{"Content-Type": "text/plain"}, 403},
		{"wrong header", "POST", "/api/models/ready/unload", "localhost:8003", map[string]string{"X-Nereid": "true"}, 403},
		{"DELETE without header", "DELETE", "/api/models/ready", "localhost:8003", nil, 403},
		{"H3 preflight from a foreign origin", "OPTIONS", "/api/models/ready/unload", "localhost:8003", map[string]string{"Origin": "http://evil.example"}, 403},
		{"preflight from the window", "OPTIONS", "/api/models/ready/unload", "localhost:8003", map[string]string{"Origin": "wails://wails"}, 204},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := httptest.NewRequest(tt.method, tt.path, nil)
			req.Host = tt.host
			for k, v := range tt.header {
				req.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			r.c.ServeHTTP(w, req)
			if w.Code != tt.want {
				t.Errorf("%s %s = %d %s, want %d", tt.method, tt.path, w.Code, w.Body, tt.want)
			}
			h := w.Header()
			if h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
				strings.Contains(h.Get("Content-Security-Policy"), "script-src 'self' 'unsafe") {
				t.Errorf("headers: %v", h)
			}
			allow := h.Get("Access-Control-Allow-Origin")
			if want := tt.header["Origin"] == "wails://wails"; (allow == "wails://wails") != want || allow == "*" {
				t.Errorf("Access-Control-Allow-Origin = %q", allow)
			}
		})
	}
	if st, _ := r.e.Model("ready"); st.Versions[0].Model == nil {
		t.Error("one of the refused requests unloaded the model")
	}
}

func TestConfigSaveReloadAndUndo(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	one := "max_batch_size: 8\n"
	res := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config", api.SaveConfig{Text: one})
	if res.Outcome != api.SaveLoaded || res.Revision.Added != 1 || res.Revision.Source != "console" {
		t.Fatalf("first save = %+v", res)
	}
	if m := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil); m.MaxBatchSize != 8 || m.ConfigText != one || m.RunningText != one || m.Revision != res.Revision.ID {
		t.Errorf("after the save: %+v", m)
	}
	if code, body := r.call("PUT", "/api/models/ready/config", api.SaveConfig{Text: "max_batch_size: 2\n", BaseRevision: 0}); code != 409 {
		t.Errorf("save on an old base = %d %s, want 409", code, body)
	}
	code, body := r.call("PUT", "/api/models/ready/config", api.SaveConfig{Text: "max_batch_sice: 2\n", BaseRevision: res.Revision.ID})
	var e api.Error
	if err := json.Unmarshal(body, &e); err != nil || code != 400 || len(e.Faults) == 0 || e.Faults[0].Line != 1 || e.Faults[0].EndCol <= e.Faults[0].Col {
		t.Errorf("save with a fault = %d %s, want 400 and its place", code, body)
	}
	// A text without a fault that does not load: the old one keeps serving.
	r.write("ready/1/model.onnx", "bad now, but readable")
	two := "max_batch_size: 3\n"
	res2 := get[api.SaveResult](r, 200, "PUT", "/api/models/ready/config", api.SaveConfig{Text: two, BaseRevision: res.Revision.ID})
	if res2.Outcome != api.SaveFailed || !res2.KeepsServing || !strings.Contains(res2.Reason, "broken") {
		t.Fatalf("save that does not load = %+v", res2)
	}
	d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if d.State != api.StateReady || d.ConfigText != two || d.RunningText != one {
		t.Errorf("after the failed reload: state %s, text %q, running %q; want the first to run", d.State, d.ConfigText, d.RunningText)
	}
	r.write("ready/1/model.onnx", "good")
	undo := get[api.SaveResult](r, 200, "POST", fmt.Sprintf("/api/models/ready/revisions/%d/restore", res2.Revision.ID),
		api.RestoreRequest{BaseRevision: res2.Revision.ID, Before: true})
	if undo.Outcome != api.SaveLoaded || undo.Revision.Restores != res2.Revision.ID || undo.Revision.Source != "restore" {
		t.Errorf("undo = %+v", undo)
	}
	// To the time before the first save: there was no file.
	none := get[api.SaveResult](r, 200, "POST", fmt.Sprintf("/api/models/ready/revisions/%d/restore", res.Revision.ID),
		api.RestoreRequest{BaseRevision: undo.Revision.ID, Before: true})
	if _, err := os.Stat(filepath.Join(r.repo, "ready/config.pbtxt")); !os.IsNotExist(err) || none.Outcome != api.SaveLoaded {
		t.Errorf("restore of no file: %v, %+v", err, none)
	}
	// A change on disk becomes a revision.
	r.write("ready/config.pbtxt", "max_batch_size: 5\n")
	list := get[api.Revisions](r, 200, "GET", "/api/models/ready/revisions", nil)
	if len(list.Revisions) != 5 || list.Revisions[0].Source != "disk" {
		t.Fatalf("revisions = %+v", list)
	}
	full := get[api.RevisionFull](r, 200, "GET", fmt.Sprintf("/api/models/ready/revisions/%d", list.Revisions[0].ID), nil)
	if full.Before != "" || full.After != "max_batch_size: 5\n" {
		t.Errorf("revision = %+v", full)
	}
	if code, _ := r.call("GET", "/api/models/other/revisions/1", nil); code != 404 {
		t.Errorf("a revision of another model = %d, want 404", code)
	}
}

func TestConfigCheckAndFields(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	c := get[api.CheckResult](r, 200, "POST", "/api/config/check", api.CheckRequest{Model: "ready", Text: "name: \"reddy\"\n"})
	if len(c.Faults) != 1 || c.Faults[0].Line != 1 || len(c.Faults[0].Fixes) != 1 || c.Faults[0].Fixes[0].Edits[0].Text != `"ready"` || c.Completed != "" {
		t.Errorf("check of a wrong name = %+v", c)
	}
	c = get[api.CheckResult](r, 200, "POST", "/api/config/check", api.CheckRequest{Model: "ready", Text: ""})
	if len(c.Faults) != 0 || !strings.Contains(c.Completed, `name: "INPUT0"`) {
		t.Errorf("check of an empty text = %+v", c)
	}
	f := get[api.ConfigFields](r, 200, "GET", "/api/config/fields", nil)
	messages, enums := map[string]api.ConfigMessage{}, map[string]bool{}
	for _, m := range f.Messages {
		messages[m.Name] = m
	}
	for _, e := range f.Enums {
		enums[e.Name] = len(e.Values) > 0
	}
	for _, m := range f.Messages {
		for _, field := range m.Fields {
			known := field.Kind == api.KindScalar || field.Kind == api.KindMap || messages[field.Type].Name != "" || enums[field.Type]
			if !known || field.Doc == "" {
				t.Errorf("%s.%s: type %q known: %v, doc %q", m.Name, field.Name, field.Type, known, field.Doc)
			}
		}
	}
	if f.Root != "ModelConfig" || len(messages["ModelInput"].Fields) < 5 || !enums["DataType"] {
		t.Errorf("fields: root %q, %d messages, %d enums", f.Root, len(f.Messages), len(f.Enums))
	}
}

func TestDeleteAndRestore(t *testing.T) {
	r := newRig(t, engine.ModePoll)
	events := r.stream("models")
	if e := next[api.ModelsEvent](events, "models"); !e.Full || len(e.Models) != 1 {
		t.Errorf("the first event = %+v, want the whole list", e)
	}
	item := get[api.Trashed](r, 200, "DELETE", "/api/models/ready", nil)
	if _, err := os.Stat(filepath.Join(r.repo, "ready")); !os.IsNotExist(err) || item.Model != "ready" {
		t.Fatalf("delete: %v, %+v", err, item)
	}
	for len(next[api.ModelsEvent](events, "models").Removed) == 0 {
		continue // UNLOADING first
	}
	if code, _ := r.call("GET", "/api/models/ready", nil); code != 404 {
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
		if code, body := r.call("POST", "/api/trash/"+id+"/restore", nil); code != 404 && code != 405 {
			t.Errorf("restore of %s = %d %s, want 404", id, code, body)
		}
	}
}

func TestClientErrorsAreLimited(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	for range 15 {
		get[struct{}](r, 204, "POST", "/api/client-errors", api.ClientError{Message: "boom\n<script>"})
	}
	if err := r.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := get[api.Events](r, 200, "GET", "/api/history/events?kind=client_error&limit=4", nil)
	if len(e.Events) != 4 || !e.More || e.Events[0].Severity != api.SeverityWarning {
		t.Errorf("events = %+v, want 4 and more", e)
	}
	all := get[api.Events](r, 200, "GET", fmt.Sprintf("/api/history/events?kind=client_error&before=%d", e.Events[3].ID), nil)
	if len(all.Events) != 6 || all.More {
		t.Errorf("%d older events, want 6: ten a minute", len(all.Events))
	}
	if code, _ := r.call("POST", "/api/client-errors", strings.NewReader(`{"message":"`+strings.Repeat("x", 1<<20)+`"}`)); code != 413 {
		t.Errorf("a huge report = %d, want 413", code)
	}
}
