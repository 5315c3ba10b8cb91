package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"nereid/app/console/api"
	"nereid/app/history"
	"nereid/engine"
	"nereid/store"
)

// events reads an event stream.
type events struct {
	t     *testing.T
	lines *bufio.Scanner
}

// stream opens the event stream for some topics; it ends with the test.
func (r *rig) stream(topics string) *events {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, "GET", r.server.URL+"/api/events?topics="+topics, nil)
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

// next is the next message of a topic.
func next[T any](e *events, topic string) T {
	e.t.Helper()
	var v T
	for kind := ""; e.lines.Scan(); {
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

func TestStreamTellsWhatHappens(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	e := r.stream("samples,event,models")
	next[api.ModelsEvent](e, "models")
	get[api.WarmupResult](r, 200, "POST", "/api/models/ready/warmup", api.WarmupRequest{Count: 7})
	var total float64
	for total < 7 {
		s := next[api.SamplesEvent](e, "samples")
		if len(s.Samples) != 1 || s.Samples[0].Model != "ready" || s.TMs%1000 != 0 {
			t.Fatalf("samples = %+v", s)
		}
		total += s.Samples[0].Requests
		if s.Samples[0].Requests > 0 && (s.Samples[0].P50Us == nil || *s.Samples[0].P50Us <= 0 || s.Samples[0].BatchMean == nil) {
			t.Errorf("a busy sample without numbers: %+v", s.Samples[0])
		}
	}
	if total != 7 {
		t.Errorf("requests in the stream: %v, want 7", total)
	}
	r.write("ready/1/model.onnx", "good, and other")
	get[api.LoadResult](r, 200, "POST", "/api/models/ready/load", nil)
	if ev := next[api.Event](e, "event"); ev.Kind != api.EventLoad || ev.Model != "ready" || ev.ID == 0 {
		t.Errorf("event = %+v, want the load", ev)
	}
	if code, _ := r.call("GET", "/api/events?topics=nonsense", nil); code != 400 {
		t.Errorf("an unknown topic = %d, want 400", code)
	}
	// The same numbers in the history, and its idle steps.
	if err := r.store.Flush(t.Context()); err != nil {
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
	if m := get[api.Models](r, 200, "GET", "/api/models", nil).Models[0].Versions[0].LastMinute; m.Requests != 7 || m.P99Us == nil {
		t.Errorf("last minute = %+v", m)
	}
	for _, q := range []string{"from=5&to=5", "from=x", "step=-1", "version=new"} {
		if code, _ := r.call("GET", "/api/history?"+q, nil); code != 400 {
			t.Errorf("history?%s = %d, want 400", q, code)
		}
	}
}

func TestSlowReaderIsCutOff(t *testing.T) {
	h := newHub()
	slow, quick := h.join([]string{"event"}), h.join([]string{"event"})
	for range streamQueue + 1 {
		h.publish("event", api.Event{})
		<-quick.queue
	}
	select {
	case <-slow.cut:
	default:
		t.Error("a reader whose queue is full is not cut off")
	}
	select {
	case <-quick.cut:
		t.Error("the quick reader is cut off")
	default:
	}
	h.leave(slow)
	h.close()
	if h.join([]string{"event"}) != nil {
		t.Error("a closed hub takes readers")
	}
}

func TestStreamEndsWithItsReader(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequest("GET", "/api/events", nil).WithContext(ctx)
	req.Host = "localhost"
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.c.ServeHTTP(httptest.NewRecorder(), req)
	}()
	cancel()
	<-done
	if r.c.hub.wants("event") {
		t.Error("the stream of a reader that left is still there")
	}
}

func TestModelsDiff(t *testing.T) {
	known := map[string]api.Model{}
	a := api.Model{Name: "a", Versions: []api.Version{{Version: "1", LastMinute: api.Recent{Requests: 1}}}}
	if e, changed := modelsDiff(known, []api.Model{a}); !changed || len(e.Models) != 1 {
		t.Errorf("a new model: %+v, %v", e, changed)
	}
	a.Versions = []api.Version{{Version: "1", LastMinute: api.Recent{Requests: 2}}}
	if e, changed := modelsDiff(known, []api.Model{a}); changed {
		t.Errorf("only numbers of the last minute: %+v, want nothing", e)
	}
	a.Versions[0].State = api.StateReady
	if _, changed := modelsDiff(known, []api.Model{a}); !changed {
		t.Error("a new state is not seen")
	}
	if e, changed := modelsDiff(known, nil); !changed || !reflect.DeepEqual([]string(e.Removed), []string{"a"}) {
		t.Errorf("a removed model: %+v", e)
	}
}

func TestSeriesShowIdleStepsAndGaps(t *testing.T) {
	const sec = 1_000_000
	spans := []store.Span{{FromUS: 10 * sec, ToUS: 13 * sec}, {FromUS: 15*sec + sec/2, ToUS: 17 * sec}}
	got := store.Samples{Step: time.Second, FromUS: 8 * sec, Points: []store.Sample{{StartUS: 11 * sec, Requests: 4}, {StartUS: 15 * sec, Requests: 2}, {StartUS: 19 * sec, Requests: 3}}}
	s := makeSeries(seriesKey{"m", 2}, got, spans, store.SampleQuery{ToUS: 21 * sec})
	if want := (api.List[int64]{10000, 11000, 12000, 15000, 16000, 19000}); !reflect.DeepEqual(s.TMs, want) {
		t.Errorf("times %v, want %v", s.TMs, want)
	}
	if want := (api.List[float64]{0, 4, 0, 4, 0, 3}); !reflect.DeepEqual(s.QPS, want) {
		t.Errorf("requests a second %v, want %v: the second span has only half of its first second", s.QPS, want)
	}
}

func TestInferPassesThrough(t *testing.T) {
	var got *http.Request
	body := ""
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		b := make([]byte, 100)
		n, _ := r.Body.Read(b)
		body = string(b[:n])
		w.Header().Set("Inference-Header-Content-Length", "7")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"as Triton says it"}`)
	}))
	defer back.Close()
	r := newRig(t, engine.ModeExplicit, func(o *Options) {
		o.InferenceHeader = http.Header{"Authorization": {"Bearer t"}}
		o.DialInference = func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", back.Listener.Addr().String())
		}
	})
	r.headers.Set("Origin", r.server.URL)
	r.headers.Set("Inference-Header-Content-Length", "5")
	code, out := r.call("POST", "/api/infer/a%20model%2Fx/versions/3", strings.NewReader("12345"))
	if code != 400 || string(out) != `{"error":"as Triton says it"}` || body != "12345" {
		t.Errorf("infer = %d %s with body %q", code, out, body)
	}
	if got.RequestURI != "/v2/models/a%20model%2Fx/versions/3/infer" || got.Host != "localhost" || got.Header.Get("Origin") != "" ||
		got.Header.Get("X-Nereid") != "" || got.Header.Get("Inference-Header-Content-Length") != "5" || got.Header.Get("Authorization") != "Bearer t" {
		t.Errorf("the request that arrives: %s %s %v", got.Host, got.RequestURI, got.Header)
	}
	off := newRig(t, engine.ModeExplicit)
	if code, out := off.call("POST", "/api/infer/ready", strings.NewReader("{}")); code != 503 {
		t.Errorf("infer without a server = %d %s, want 503", code, out)
	}
}

func TestCountLines(t *testing.T) {
	for _, tt := range []struct {
		name           string
		before, after  string
		added, removed int
	}{
		{"nothing", "a\nb\n", "a\nb\n", 0, 0},
		{"new", "", "a\nb\n", 2, 0},
		{"gone", "a\n", "", 0, 1},
		{"one line changed", "a\nb\nc\n", "a\nx\nc\n", 1, 1},
		{"moved", "a\nb\nc\n", "c\na\nb\n", 1, 1},
		{"in between", "a\nb\n", "a\nx\ny\nb\n", 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if added, removed := countLines(&tt.before, &tt.after); added != tt.added || removed != tt.removed {
				t.Errorf("countLines = %d, %d; want %d, %d", added, removed, tt.added, tt.removed)
			}
		})
	}
}

func TestEventOfTheStoreIsShown(t *testing.T) {
	e := apiEvent(store.Event{ID: 3, TimeUS: 5_000_000, Kind: history.ReloadFailed, Model: "m", Version: 2, Reason: "no", Detail: []byte(`{"durationMs":1.5,"revision":9}`)})
	want := api.Event{ID: 3, TMs: 5000, Kind: api.EventReloadFailed, Severity: api.SeverityError, Model: "m", Version: "2", Text: "no", DurationMs: 1.5, Revision: 9}
	if e != want {
		t.Errorf("apiEvent = %+v, want %+v", e, want)
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	t.Run("used", func(t *testing.T) {
		r := newRig(t, engine.ModePoll)
		r.stream("models,samples")
		im := r.upload("", map[string]string{"m.onnx": "good"})
		get[api.Import](r, 202, "POST", "/api/imports/"+im.ID+"/commit", nil)
	}) // its cleanup closes the console while the import is being committed
	buf := make([]byte, 1<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	for _, s := range strings.Split(stacks, "\n\n") {
		if strings.Contains(s, "nereid/app/console.(*Console)") || strings.Contains(s, "nereid/app/history.") || strings.Contains(s, "nereid/store.") {
			if !strings.Contains(s, "testing.tRunner") {
				t.Errorf("still running:\n%s", s)
			}
		}
	}
}
