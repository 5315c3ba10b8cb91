package console_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/console/configs"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/store"
)

// fileBackend takes the place of ONNX Runtime: it serves identity for a file that says good, and refuses a file that
// says bad. It cannot read the signature of a file that says "bad file".
type fileBackend struct{ backend.Backend }

func (fileBackend) Name() string { return "onnxruntime" }

func (b fileBackend) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	text, err := os.ReadFile(filepath.Join(s.VersionFolder, "model.onnx"))
	if err != nil {
		return nil, status.Errorf(status.NotFound, "model file: %w", err)
	}
	if string(text) == "bad and gone" {
		if err := os.RemoveAll(filepath.Dir(s.VersionFolder)); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(string(text), "bad") {
		return nil, status.New(status.InvalidArg, "the model file is broken")
	}
	m, err := b.Backend.Load(ctx, s)
	if string(text) == "good shifted" {
		m = shiftedModel{m}
	}
	if err == nil && string(text) == "good growing" {
		m = growingModel{m, filepath.Join(s.VersionFolder, "takes")}
	}
	return m, err
}

// growingModel is identity that takes as much memory as the file takes has.
type growingModel struct {
	backend.Model
	takes string
}

func (m growingModel) MemoryBytes() int64 {
	info, err := os.Stat(m.takes)
	if err != nil {
		return -1
	}
	return info.Size()
}

// shiftedModel is identity with 1 in the place of the first element.
type shiftedModel struct{ backend.Model }

func (m shiftedModel) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	i, err := m.Model.NewInstance(ctx, p)
	return shiftedInstance{i}, err
}

type shiftedInstance struct{ backend.Instance }

func (i shiftedInstance) Execute(ctx context.Context, b *infer.Batch) error {
	for _, r := range b.Requests {
		copy(r.Inputs[0].Data, []byte{0, 0, 0x80, 0x3f})
	}
	return i.Instance.Execute(ctx, b)
}

func (b fileBackend) Signature(_ context.Context, s backend.Spec) (*modelconfig.Signature, error) {
	file := filepath.Join(s.VersionFolder, "model.onnx")
	text, err := os.ReadFile(file)
	if err != nil || strings.HasPrefix(string(text), "bad file") {
		return nil, status.New(status.InvalidArg, "the model file "+file+" cannot be read")
	}
	io := func(name string) []modelconfig.IO {
		return []modelconfig.IO{{Name: name, DataType: tensor.FP32, Dims: []int64{-1, 4},
			DimNames: []string{"batch", ""}}}
	}
	return &modelconfig.Signature{Platform: "onnxruntime_onnx", Backend: "onnxruntime",
		Inputs: io("INPUT0"), Outputs: io("OUTPUT0")}, nil
}

// rig is a console and what it works with. The repository has the model "ready", which is loaded.
type rig struct {
	Console *console.Console
	Engine  *engine.Engine
	Store   *store.Store
	Repo    string // the model repository
	Data    string // the data folder
	URL     string
	Headers http.Header // of every request

	t *testing.T
}

// newRig starts a console that ends with the test. The functions change its options.
func newRig(t *testing.T, mode engine.ControlMode, change ...func(*console.Options)) *rig {
	t.Helper()
	r := &rig{t: t, Repo: filepath.Join(t.TempDir(), "models"), Data: filepath.Join(t.TempDir(), "data"),
		Headers: http.Header{"X-Nereid": {"1"}}}
	r.Write("ready/1/model.onnx", "good")
	var err error
	if r.Store, err = store.Open(t.Context(), r.Data, store.Options{}); err != nil {
		t.Fatal(err)
	}
	rec := history.New(nil, r.Store)
	backends := builtin.All()
	for _, b := range builtin.All() {
		if b.Name() == "identity" {
			backends = append(backends, fileBackend{b})
		}
	}
	r.startEngine(mode, backends, rec)
	o := console.Options{
		Engine: r.Engine, Store: r.Store, Recorder: rec, Repositories: []string{r.Repo}, DataDir: r.Data,
		Page: fstest.MapFS{"index.html": {Data: []byte("<p>page")}},
		Check: &configs.Checker{Backends: backends, AutoComplete: true,
			DefaultMaxBatchSize: func(string) int { return 4 }},
	}
	for _, f := range change {
		f(&o)
	}
	if r.Console, err = console.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	recorded := make(chan error, 1)
	go func() { recorded <- rec.Run(ctx) }()
	server := httptest.NewUnstartedServer(nil)
	server.Config = r.Console.Server()
	server.Start()
	r.URL = server.URL
	t.Cleanup(func() {
		if err := r.Console.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		server.Close()
		cancel()
		if err := <-recorded; err != nil {
			t.Errorf("recorder: %v", err)
		}
		r.Engine.Close(context.Background())
		if err := r.Store.Close(); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	return r
}

// startEngine starts an engine whose events go to the recorder and the store, as in the server.
func (r *rig) startEngine(mode engine.ControlMode, backends []backend.Backend, rec *history.Recorder) {
	keep := func(rev store.Revision) {
		if _, err := r.Store.AddRevision(context.Background(), rev); err != nil {
			r.t.Error(err)
		}
	}
	var err error
	r.Engine, err = engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{r.Repo}, Backends: backends, Settle: 20 * time.Millisecond,
			Events: engine.EventListener{
				Loaded: func(m string, v int64, d time.Duration, _ bool) {
					rec.Event(history.Event{Kind: history.Load, Model: m, Version: v, Detail: history.Took(d)})
				},
				VersionsChosen: func(m string, before,
					after []int64) {
					keep(configs.VersionsRevision(m, before, after))
				},
				Overridden: func(m, before, config string) { keep(configs.OverrideRevision(m, before, config)) },
			},
		},
		Mode: mode, StartupModels: []string{"*"}, PollInterval: 50 * time.Millisecond,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	rec.SetSource(r.Engine)
	if err := r.Engine.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// Write writes a file of the repository.
func (r *rig) Write(path, text string) {
	r.t.Helper()
	p := filepath.Join(r.Repo, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// Call sends a request with a JSON body (or an io.Reader's bytes) and returns the status and the body of the reply.
func (r *rig) Call(method, path string, body any) (int, []byte) {
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
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	for k, v := range r.Headers {
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

// get is Call with a wanted status. It returns the decoded reply.
func get[T any](r *rig, want int, method, path string, body any) T {
	r.t.Helper()
	code, out := r.Call(method, path, body)
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

// Upload stages files as an import and analyses them. source names what was dropped.
func (r *rig) Upload(source string, files map[string]string) api.Import {
	r.t.Helper()
	im := get[api.Import](r, http.StatusCreated, "POST", "/api/imports", api.ImportCreate{Source: source})
	for path, text := range files {
		if code, body := r.Call("PUT", "/api/imports/"+im.ID+"/files/"+path,
			strings.NewReader(text)); code != http.StatusNoContent {
			r.t.Fatalf("PUT %s = %d %s", path, code, body)
		}
	}
	return get[api.Import](r, http.StatusOK, "POST", "/api/imports/"+im.ID+"/analyze", nil)
}

// events reads an event stream.
type events struct {
	t     *testing.T
	lines *bufio.Scanner
}

// Stream opens the event stream for some topics. It ends with the test.
func (r *rig) Stream(topics string) *events {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, "GET", r.URL+"/api/events?topics="+topics, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cancel(); resp.Body.Close() })
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || ct != "text/event-stream" {
		r.t.Fatalf("stream = %d %s", resp.StatusCode, ct)
	}
	s := bufio.NewScanner(resp.Body)
	s.Buffer(nil, 1<<20)
	return &events{r.t, s}
}

// next returns the next message of a topic.
func next[T any](e *events, topic string) T {
	e.t.Helper()
	var v T
	kind := ""
	for e.lines.Scan() {
		line := e.lines.Text()
		if k, ok := strings.CutPrefix(line, "event: "); ok {
			kind = k
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && kind == topic {
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				e.t.Fatalf("event %s: %v in %s", topic, err, data)
			}
			return v
		}
	}
	e.t.Fatalf("the stream ended before an event of topic %s: %v", topic, e.lines.Err())
	return v
}
