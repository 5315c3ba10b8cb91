package console_test

import (
	"context"
	"encoding/json"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/engine"
	"nereid/engine/httpapi"
)

// serving adds the real inference server to a rig.
func serving(t *testing.T, files map[string]string, change ...func(*console.Options)) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, engine.ModeExplicit, append(change, func(o *console.Options) {
		o.Inference.Dial = func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", l.Addr().String())
		}
	})...)
	for name, text := range files {
		r.Write(name+"/config.pbtxt", text)
		r.Write(name+"/1/x", "")
		if err := r.Engine.Reload(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	h, err := httpapi.New(httpapi.Options{Engine: r.Engine})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	t.Cleanup(func() {
		if err := h.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// waitForLoadTest waits until the load test of a model is over.
func waitForLoadTest(t *testing.T, r *rig, model string) api.LoadTest {
	t.Helper()
	for {
		got := get[api.LoadTest](r, 200, "GET", "/api/models/"+model+"/load-test", nil)
		if got.State != api.LoadTestRunning {
			return got
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the load test does not end")
		case <-time.After(20 * time.Millisecond): // asks as the page does
		}
	}
}

func TestLoadTest(t *testing.T) {
	const row = `backend: "identity" max_batch_size: 8 input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }`
	r := serving(t, map[string]string{"good": row,
		"many": `backend: "square" model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: 1 } output { name: "OUT" data_type: TYPE_INT32 dims: 1 }`})
	const path = "/api/models/good/load-test"
	if got := get[api.LoadTest](r, 200, "GET", path, nil); got.State != api.LoadTestNone {
		t.Errorf("before the first: %+v", got)
	}
	t.Run("each level, and kept", func(t *testing.T) {
		started := get[api.LoadTest](r, 202, "POST", path, api.StartLoadTest{From: 1, To: 3, Step: 2,
			Batch: 4, WindowMs: 100})
		if started.State != api.LoadTestRunning || len(started.Levels) != 2 {
			t.Errorf("started: %+v", started)
		}
		got := waitForLoadTest(t, r, "good")
		if got.State != api.LoadTestDone || len(got.Points) != 2 || got.Batch != 4 || got.EndedMs < got.StartedMs ||
			got.Now != nil {
			t.Fatalf("result %+v", got)
		}
		for i, p := range got.Points {
			if p.Level != 1+2*i || p.Requests < 1 || p.Rate <= 0 || p.P50Us <= 0 || p.P99Us < p.P50Us ||
				p.ComputeUs < 0 {
				t.Errorf("point %+v", p)
			}
		}
		b, err := r.Store.Setting(t.Context(), "load-test/good")
		var kept api.LoadTest
		if err != nil || json.Unmarshal(b, &kept) != nil || len(kept.Points) != 2 {
			t.Errorf("kept %s, %v", b, err)
		}
		if e := waitForEvent(t, r, api.EventLoadTest, "good", "done after 2 of 2 levels"); e.DurationMs <= 0 {
			t.Errorf("the event of the load test: %+v", e)
		}
	})
	t.Run("one at a time, until it is stopped", func(t *testing.T) {
		get[api.LoadTest](r, 202, "POST", path, api.StartLoadTest{From: 1, To: 64, Step: 1,
			WindowMs: 60_000})
		get[api.Error](r, http.StatusConflict, "POST", "/api/models/good/load-test",
			api.StartLoadTest{From: 1, To: 1, Step: 1})
		get[api.Error](r, http.StatusConflict, "DELETE", "/api/models/many/load-test", nil)
		get[api.LoadTest](r, 200, "DELETE", path, nil)
		if got := waitForLoadTest(t, r, "good"); got.State != api.LoadTestStopped || len(got.Levels) != 64 {
			t.Errorf("result %+v", got)
		}
		get[api.Error](r, http.StatusConflict, "DELETE", path, nil)
	})
	for name, tt := range map[string]struct {
		model string
		in    api.StartLoadTest
		code  int
	}{
		"downwards":          {"good", api.StartLoadTest{From: 3, To: 1, Step: 1}, 400},
		"from nothing":       {"good", api.StartLoadTest{From: 0, To: 1, Step: 1}, 400},
		"too high":           {"good", api.StartLoadTest{From: 1, To: 2000, Step: 1999}, 400},
		"too many levels":    {"good", api.StartLoadTest{From: 1, To: 65, Step: 1}, 400},
		"no step":            {"good", api.StartLoadTest{From: 1, To: 1}, 400},
		"too large a step":   {"good", api.StartLoadTest{From: 1, To: 1, Step: math.MaxInt}, 400},
		"too short a window": {"good", api.StartLoadTest{From: 1, To: 1, Step: 1, WindowMs: 1}, 400},
		"too large a batch":  {"good", api.StartLoadTest{From: 1, To: 1, Step: 1, Batch: 9}, 400},
		"a decoupled model":  {"many", api.StartLoadTest{From: 1, To: 1, Step: 1}, 400},
		"no such model":      {"nosuch", api.StartLoadTest{From: 1, To: 1, Step: 1}, 404},
	} {
		t.Run(name, func(t *testing.T) {
			get[api.Error](r, tt.code, "POST", "/api/models/"+tt.model+"/load-test", tt.in)
		})
	}
	if b, err := r.Store.Setting(t.Context(), "load-test/many"); err == nil {
		t.Errorf("a refused load test is kept: %s", b)
	}
}

// waitForEvent waits until the history has an event of this kind with this text.
func waitForEvent(t *testing.T, r *rig, kind api.EventKind, model, text string) api.Event {
	t.Helper()
	for {
		got := get[api.Events](r, 200, "GET", "/api/history/events?kind="+string(kind), nil)
		for _, e := range got.Events {
			if e.Model == model && strings.Contains(e.Text, text) {
				return e
			}
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("no event %s with %q in %+v", kind, text, got.Events)
		case <-time.After(20 * time.Millisecond): // asks as the page does
		}
	}
}

// A load test that runs does not hold the end of the server up.
func TestLoadTestEndsWithTheConsole(t *testing.T) {
	r := serving(t, nil)
	get[api.LoadTest](r, 202, "POST", "/api/models/ready/load-test",
		api.StartLoadTest{From: 1, To: 64, Step: 1, WindowMs: 60_000})
}
