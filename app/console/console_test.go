package console_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/console/settings"
	"nereid/engine"
)

func TestServerAndModels(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	s := get[api.Server](r, 200, "GET", "/api/server", nil)
	if !s.Live || !s.Ready || s.ModelControlMode != "explicit" || len(s.Repositories) != 1 ||
		s.Repositories[0].Models != 1 ||
		!s.Repositories[0].Writable || s.TritonVersion != "2.51.0" || s.Process.PID != os.Getpid() ||
		s.Process.RSSBytes == 0 {
		t.Errorf("server = %+v", s)
	}
	m := get[api.Models](r, 200, "GET", "/api/models", nil)
	if len(m.Models) != 1 || m.Models[0].Name != "ready" || m.Models[0].State != api.StateReady ||
		m.Models[0].MaxBatchSize != 4 ||
		m.Models[0].ConfigExists || len(m.Models[0].Versions[0].LastMinute.Spark) != 60 {
		t.Errorf("models = %+v", m)
	}
	d := get[api.ModelDetail](r, 200, "GET", "/api/models/ready", nil)
	if len(d.Files) != 1 || d.Files[0].Path != "1/model.onnx" || !d.Writable ||
		!strings.Contains(d.CompletedText, "max_batch_size: 4") ||
		len(d.Inputs) != 1 || d.Inputs[0].DimNames[0] != "batch" || d.Inputs[0].Shape[0] != -1 ||
		len(d.Effective) < 10 {
		t.Errorf("detail = %+v", d)
	}
	for _, path := range []string{"/api/models/nope", "/api/models/..%2fmodels", "/api/nothing",
		"/api/models/nope/archive"} {
		if code, body := r.Call("GET", path, nil); code != 404 && code != 400 {
			t.Errorf("GET %s = %d %s", path, code, body)
		}
	}
	if code, body := r.Call("GET", "/", nil); code != 200 || string(body) != "<p>page" {
		t.Errorf("the page = %d %s", code, body)
	}
	l := get[api.LoadResult](r, 200, "POST", "/api/models/ready/unload", nil)
	if !l.OK || l.Model.State != api.StateUnavailable && l.Model.State != api.StateUnloading {
		t.Errorf("unload = %+v", l)
	}
	r.Write("ready/1/model.onnx", "bad")
	l = get[api.LoadResult](r, 200, "POST", "/api/models/ready/load", nil)
	if l.OK || l.KeepsServing || !strings.Contains(l.Reason, "broken") {
		t.Errorf("load of a broken file = %+v", l)
	}
}

func TestGuard(t *testing.T) {
	r := newRig(t, engine.ModeExplicit,
		func(o *console.Options) { o.AllowedHosts = []string{"gpu-box"}; o.Window = &settings.Window{} })
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
		{"same origin", "POST", "/api/client-errors", "localhost:8003",
			map[string]string{"Origin": "http://localhost:8003", "X-Nereid": "1"}, 204},
		{"H2 foreign origin", "POST", "/api/client-errors", "localhost:8003",
			map[string]string{"Origin": "http://evil.example", "X-Nereid": "1"}, 403},
		{"other port", "POST", "/api/client-errors", "localhost:8003",
			map[string]string{"Origin": "http://localhost:8004", "X-Nereid": "1"}, 403},
		{"origin null", "POST", "/api/client-errors", "localhost:8003",
			map[string]string{"Origin": "null", "X-Nereid": "1"}, 403},
		{"the window", "POST", "/api/client-errors", "localhost:8003", map[string]string{"Origin": "wails://wails",
			"X-Nereid": "1"}, 204},
		{"H4 stream from a foreign origin", "GET", "/api/events", "localhost:8003",
			map[string]string{"Origin": "http://evil.example"}, 403},
		{"H2 image tag on another site", "GET", "/api/models", "localhost:8003",
			map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"link on another site", "GET", "/", "localhost:8003", map[string]string{"Sec-Fetch-Site": "cross-site"}, 200},
		{"H2 form without preflight", "POST", "/api/models/ready/unload", "localhost:8003",
			map[string]string{"Content-Type": "text/plain"}, 403},
		{"wrong header", "POST", "/api/models/ready/unload", "localhost:8003", map[string]string{"X-Nereid": "true"},
			403},
		{"DELETE without header", "DELETE", "/api/models/ready", "localhost:8003", nil, 403},
		{"H3 preflight from a foreign origin", "OPTIONS", "/api/models/ready/unload", "localhost:8003",
			map[string]string{"Origin": "http://evil.example"}, 403},
		{"preflight from the window", "OPTIONS", "/api/models/ready/unload", "localhost:8003",
			map[string]string{"Origin": "wails://wails"}, 204},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := httptest.NewRequest(tt.method, tt.path, nil)
			req.Host = tt.host
			for k, v := range tt.header {
				req.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			r.Console.ServeHTTP(w, req)
			if w.Code != tt.want {
				t.Errorf("%s %s = %d %s, want %d", tt.method, tt.path, w.Code, w.Body, tt.want)
			}
			h := w.Header()
			if h.Get("X-Content-Type-Options") != "nosniff" ||
				!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
				strings.Contains(h.Get("Content-Security-Policy"), "script-src 'self' 'unsafe") {
				t.Errorf("headers: %v", h)
			}
			allow := h.Get("Access-Control-Allow-Origin")
			if want := tt.header["Origin"] == "wails://wails"; (allow == "wails://wails") != want || allow == "*" {
				t.Errorf("Access-Control-Allow-Origin = %q", allow)
			}
		})
	}
	if st, _ := r.Engine.Model("ready"); st.Versions[0].Model == nil {
		t.Error("one of the refused requests unloaded the model")
	}
}

func TestClientErrorsAreLimited(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	for range 15 {
		get[struct{}](r, 204, "POST", "/api/client-errors", api.ClientError{Message: "boom\n<script>"})
	}
	if err := r.Store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := get[api.Events](r, 200, "GET", "/api/history/events?kind=client_error&limit=4", nil)
	if len(e.Events) != 4 || !e.More || e.Events[0].Severity != api.SeverityWarning {
		t.Errorf("events = %+v, want 4 and more", e)
	}
	all := get[api.Events](r, 200, "GET", fmt.Sprintf("/api/history/events?kind=client_error&before=%d",
		e.Events[3].ID), nil)
	if len(all.Events) != 6 || all.More {
		t.Errorf("%d older events, want 6: ten a minute", len(all.Events))
	}
	if code, _ := r.Call("POST", "/api/client-errors",
		strings.NewReader(`{"message":"`+strings.Repeat("x", 1<<20)+`"}`)); code != 413 {
		t.Errorf("a huge report = %d, want 413", code)
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	t.Run("used", func(t *testing.T) {
		r := newRig(t, engine.ModePoll)
		r.Stream("models,samples")
		im := r.Upload("", map[string]string{"m.onnx": "good"})
		get[api.Import](r, 202, "POST", "/api/imports/"+im.ID+"/commit", nil)
	}) // its cleanup closes the console while the import is being committed
	buf := make([]byte, 1<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	for _, s := range strings.Split(stacks, "\n\n") {
		if strings.Contains(s, "nereid/app/console/") || strings.Contains(s, "nereid/app/history.") ||
			strings.Contains(s, "nereid/store.") {
			if !strings.Contains(s, "testing.tRunner") {
				t.Errorf("still running:\n%s", s)
			}
		}
	}
}

func TestStreamReportsChanges(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	e := r.Stream("samples,event,models")
	next[api.ModelsEvent](e, "models")
	get[api.WarmupResult](r, 200, "POST", "/api/models/ready/warmup", api.WarmupRequest{Count: 7})
	var total float64
	for total < 7 {
		s := next[api.SamplesEvent](e, "samples")
		if len(s.Samples) == 0 {
			continue // an idle second
		}
		if len(s.Samples) != 1 || s.Samples[0].Model != "ready" || s.TMs%1000 != 0 {
			t.Fatalf("samples = %+v", s)
		}
		total += s.Samples[0].Requests
		if s.Samples[0].Requests > 0 && (s.Samples[0].P50Us == nil || *s.Samples[0].P50Us <= 0 ||
			s.Samples[0].BatchMean == nil) {
			t.Errorf("a busy sample without numbers: %+v", s.Samples[0])
		}
	}
	if total != 7 {
		t.Errorf("requests in the stream: %v, want 7", total)
	}
	r.Write("ready/1/model.onnx", "good, and other")
	get[api.LoadResult](r, 200, "POST", "/api/models/ready/load", nil)
	if ev := next[api.Event](e, "event"); ev.Kind != api.EventLoad || ev.Model != "ready" || ev.ID == 0 {
		t.Errorf("event = %+v, want the load", ev)
	}
	if code, _ := r.Call("GET", "/api/events?topics=nonsense", nil); code != 400 {
		t.Errorf("an unknown topic = %d, want 400", code)
	}
	// The same numbers in the history, and its idle steps.
	if err := r.Store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := get[api.History](r, 200, "GET", "/api/history?model=ready", nil)
	if len(h.Series) != 1 || h.StepMs != 2000 {
		t.Fatalf("history = %+v", h)
	}
	s := h.Series[0]
	var sum float64
	for i, n := range s.Requests {
		sum += n
		if n == 0 && s.P50Us[i] != nil || n > 0 && s.P50Us[i] == nil {
			t.Errorf("step %d: %v requests with latency %v", i, n, s.P50Us[i])
		}
	}
	if sum != 7 || s.Version != "1" || len(s.QPS) != len(s.TMs) || len(s.BatchMean) != len(s.TMs) {
		t.Errorf("series = %+v; want 7 requests", s)
	}
	if m := get[api.Models](r, 200, "GET", "/api/models",
		nil).Models[0].Versions[0].LastMinute; m.Requests != 7 || m.P99Us == nil {
		t.Errorf("last minute = %+v", m)
	}
	for _, q := range []string{"from=5&to=5", "from=x", "step=-1", "version=new"} {
		if code, _ := r.Call("GET", "/api/history?"+q, nil); code != 400 {
			t.Errorf("history?%s = %d, want 400", q, code)
		}
	}
}
