package catalog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"nereid/app/catalog"
	"nereid/app/console/models"
	"nereid/docs/examples/catalog/platform"
	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/repo/cloud"
)

const token = "the token"

// rig is a platform, whose traffic is checked against the OpenAPI file.
type rig struct {
	t      *testing.T
	models string
	router routers.Router
	url    *url.URL
	peers  bool // nodes serve each other

	mu      sync.Mutex
	handler http.Handler              // guarded by mu, as are the next two; nil: the platform is gone
	reports map[string]catalog.Report // the last one of each node
	news    chan struct{}             // is closed at the next report
}

func newRig(t *testing.T, o platform.Options) *rig {
	doc, err := openapi3.NewLoader().LoadFromFile("../../docs/examples/catalog/openapi.yaml")
	if err == nil {
		err = doc.Validate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	doc.Servers = nil
	r := &rig{t: t, models: t.TempDir(), reports: map[string]catalog.Report{}, news: make(chan struct{})}
	if r.router, err = legacy.NewRouter(doc); err != nil {
		t.Fatal(err)
	}
	o.Models, o.Token = r.models, token
	r.handler = platform.New(o)
	s := httptest.NewServer(r.checked(http.HandlerFunc(r.platform)))
	t.Cleanup(s.Close)
	if r.url, err = url.Parse(s.URL); err != nil {
		t.Fatal(err)
	}
	return r
}

// checked checks requests and answers against the OpenAPI file.
func (r *rig) checked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		route, params, err := r.router.FindRoute(req)
		if err != nil {
			r.t.Errorf("%s %s is not in the OpenAPI file: %v", req.Method, req.URL, err)
			return
		}
		in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route,
			Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
		if err := openapi3filter.ValidateRequest(req.Context(), in); err != nil {
			r.t.Errorf("the request is not as in the OpenAPI file: %v", err)
		}
		out := httptest.NewRecorder()
		h.ServeHTTP(out, req)
		body := out.Body.Bytes()
		if out.Code != 0 && out.Code != http.StatusServiceUnavailable {
			err = openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
				RequestValidationInput: in, Status: out.Code, Header: out.Header(),
				Body: io.NopCloser(bytes.NewReader(body))})
			if err != nil {
				r.t.Errorf("the answer is not as in the OpenAPI file: %v", err)
			}
		}
		maps.Copy(w.Header(), out.Header())
		w.WriteHeader(out.Code)
		_, _ = w.Write(body)
	})
}

// platform is the platform, as long as it is there. It keeps the reports.
func (r *rig) platform(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	h := r.handler
	r.mu.Unlock()
	if h == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if req.Method == http.MethodPut {
		b, err := io.ReadAll(req.Body)
		var report catalog.Report
		if err != nil || json.Unmarshal(b, &report) != nil {
			r.t.Errorf("a report %q, %v", b, err)
		}
		req.Body = io.NopCloser(bytes.NewReader(b))
		r.mu.Lock()
		r.reports[filepath.Base(req.URL.Path)] = report
		close(r.news)
		r.news = make(chan struct{})
		r.mu.Unlock()
	}
	h.ServeHTTP(w, req)
}

func (r *rig) setPlatform(h http.Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handler = h
}

// wait waits until a node reports something.
func (r *rig) wait(node, what string, is func(catalog.Report) bool) catalog.Report {
	r.t.Helper()
	deadline := time.After(time.Minute)
	for {
		r.mu.Lock()
		report, news := r.reports[node], r.news
		r.mu.Unlock()
		if is(report) {
			return report
		}
		select {
		case <-news:
		case <-deadline:
			r.t.Fatalf("%s does not report %s, but %+v", node, what, report)
		}
	}
}

// state is for wait: whether a model has a state, and a reason with a text.
func state(model, state, reason string) func(catalog.Report) bool {
	return func(r catalog.Report) bool {
		for _, m := range r.Models {
			if m.Name == model {
				return m.State == state && strings.Contains(m.Reason, reason)
			}
		}
		return state == ""
	}
}

// versions is for wait: whether these versions of a model are served, and no others.
func versions(model string, want ...int64) func(catalog.Report) bool {
	return func(r catalog.Report) bool {
		for _, m := range r.Models {
			var got []int64
			for _, v := range m.Versions {
				if v.State == "READY" {
					got = append(got, v.Version)
				}
			}
			if m.Name == model && m.State == "READY" && len(got) == len(want) {
				return len(got) == 0 || got[0] == want[0]
			}
		}
		return false
	}
}

// publish writes files into the platform's folder.
func (r *rig) publish(files map[string]string) {
	r.t.Helper()
	write(r.t, r.models, files)
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		at := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		part := filepath.Join(t.TempDir(), "part") // the platform must not see half a file
		if err := os.WriteFile(part, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(part, at); err != nil {
			t.Fatal(err)
		}
	}
}

const identity = `backend: "identity" input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 } ` +
	`output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }`

// sent returns how many bytes of files the platform has sent.
func (r *rig) sent() (sum int64) {
	r.t.Helper()
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/v1/files", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	r.handler.ServeHTTP(w, req)
	var by map[string]int64
	if err := json.Unmarshal(w.Body.Bytes(), &by); err != nil {
		r.t.Fatal(err)
	}
	for _, n := range by {
		sum += n
	}
	return sum
}

// machine is a node with an engine.
type machine struct {
	*engine.Engine
	node *catalog.Node
	dir  string // the data folder
	own  string // the operator's model repository
	log  *bytes.Buffer
	stop func()
}

// start starts a node. set may change the options.
func (r *rig) start(name, dir string, set func(*catalog.Options)) *machine {
	r.t.Helper()
	m := &machine{dir: dir, own: filepath.Join(dir, "models"), log: new(bytes.Buffer)}
	tokenFile := filepath.Join(dir, "token")
	if err := os.MkdirAll(m.own, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(m.log, nil))
	o := catalog.Options{URL: r.url, Name: name, TokenFile: tokenFile, Interval: 100 * time.Millisecond,
		Folder: filepath.Join(dir, "catalog"), Repositories: []string{m.own},
		Trash: &models.Trash{Dir: filepath.Join(dir, "trash")}, Version: "test", Log: log,
		Cloud: cloud.Options{Lookup: os.LookupEnv, Log: log}}
	if set != nil {
		set(&o)
	}
	var err error
	if m.node, err = catalog.Open(o); err != nil {
		r.t.Fatal(err)
	}
	if r.peers {
		s := httptest.NewServer(r.checked(m.node.Handler()))
		r.t.Cleanup(s.Close)
		m.node.SetPeer(s.URL)
	}
	m.Engine, err = engine.New(engine.Options{ModelOptions: engine.ModelOptions{
		Repositories: append(o.Repositories, m.node.Repository()), Backends: builtin.All(),
		Yielding: m.node.Repository(), OverrideFolder: r.t.TempDir(), Log: log, Namespaces: o.Namespaces}})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := m.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { m.node.Run(ctx, m.Engine) })
	m.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		m.Close(context.Background())
		if r.t.Failed() {
			r.t.Logf("the log of %s:\n%s", name, m.log)
		}
	})
	r.t.Cleanup(m.stop)
	return m
}

// serves reports whether a model is in service.
func (m *machine) serves(model string) bool {
	ready, err := m.ModelReady(model, -1)
	return err == nil && ready
}

func exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return err == nil
}
