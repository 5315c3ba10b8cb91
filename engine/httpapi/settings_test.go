package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"nereid/engine"
	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/trace"
)

// fakeLog has log settings that can be changed.
type fakeLog struct {
	mu sync.Mutex
	v  engine.LogSettings // guarded by mu
}

func (l *fakeLog) LogSettings() engine.LogSettings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.v
}

func (l *fakeLog) UpdateLog(u engine.LogUpdate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range []struct{ to, from *bool }{{&l.v.Info, u.Info}, {&l.v.Warning, u.Warning},
		{&l.v.Error, u.Error}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if u.Verbose != nil {
		l.v.Verbose = *u.Verbose
	}
	if u.Format != nil {
		l.v.Format = *u.Format
	}
}

func tracer(t *testing.T, s trace.Settings) *trace.Tracer {
	t.Helper()
	tr, err := trace.New(trace.Options{Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// The settings of a server without options.
const (
	defaultTrace = `{"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1","log_frequency":"0",` +
		`"trace_file":"","trace_mode":"triton"}`
	defaultLog = `{"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,` +
		`"log_format":"default"}`
)

func TestSettings(t *testing.T) {
	tr := tracer(t, trace.Default())
	log := &fakeLog{v: engine.LogSettings{Info: true, Warning: true, Error: true, Format: "default"}}
	s := serve(t, func(o *Options) { o.Trace, o.LogControl = tr, log })
	conn := dial(t, s.addr)
	const start, logStart = defaultTrace, defaultLog
	fixed := func(text string) answer {
		return answer{status: "501 Not Implemented", kind: typeJSON, body: `{"error":"` + text + `"}`}
	}
	for _, tt := range []struct {
		row, request, body string
		want               answer
	}{
		{row: "B015", request: "GET /v2/trace/setting", want: okJSON(start)},
		{row: "B015", request: "GET /v2/models/add_sub/trace/setting", want: okJSON(start)},
		{request: "GET /v2/models/add_sub/versions/1/trace/setting", want: answer{status: "404 Not Found",
			kind: typeText, body: `{"error":"Not Found"}`}},
		{request: "PUT /v2/trace/setting", want: answer{status: "405 Not Allowed", kind: typeJSON,
			body: `{"error":"Method Not Allowed"}`}},
		{request: "GET /v2/models/nope/trace/setting", want: badJSON("Request for unknown model : nope")},
		{request: "POST /v2/models/nope/trace/setting", body: "{}", want: badJSON("Request for unknown model : nope")},
		{request: "POST /v2/trace/setting", body: `{"trace_level":["TIMESTAMPS"],"trace_rate":"500"}`,
			want: badJSON("Attempting to set invalid trace setting :trace file name is not given")},
		{row: "R7 DV45", request: "POST /v2/trace/setting", body: `{"trace_level":["BAD"]}`,
			want: badJSON("trace_level: 'BAD' is none of OFF, TIMESTAMPS, TENSORS")},
		{row: "R7 DV45", request: "POST /v2/trace/setting", body: `{"nosuch":"1"}`,
			want: badJSON("unknown trace setting 'nosuch'; known are trace_level, trace_rate, trace_count, " +
				"log_frequency")},
		{request: "POST /v2/trace/setting", body: `{"trace_level":["OFF"],"trace_rate":null}`, want: okJSON(start)},
		{request: "POST /v2/trace/setting", body: `{"trace_level":[]}`, want: okJSON(start)},
		{request: "POST /v2/trace/setting", body: `{"trace_level":"OFF"}`,
			want: badJSON(tensorjson.ErrNotArray.Error())},
		{request: "POST /v2/trace/setting", body: `{"trace_rate":5}`, want: badJSON(tensorjson.ErrNotString.Error())},
		{row: "A20", request: "POST /v2/trace/setting", body: `{"trace_file":"/etc/passwd"}`,
			want: fixed("trace file location can not be updated through network protocol")},
		{row: "A20", request: "POST /v2/models/add_sub/trace/setting", body: `{"trace_file":"../x"}`,
			want: fixed("trace file location can not be updated through network protocol")},
		{row: "B015", request: "POST /v2/trace/setting", body: `{"trace_rate":"500"}`,
			want: okJSON(strings.Replace(start, "1000", "500", 1))},
		{row: "B015", request: "POST /v2/models/add_sub/trace/setting", body: `{"trace_count":"7"}`,
			want: okJSON(strings.Replace(strings.Replace(start, "1000", "500", 1), "-1", "7", 1))},
		{row: "B015", request: "POST /v2/models/add_sub/trace/setting", body: `{"trace_count":null}`,
			want: okJSON(strings.Replace(start, "1000", "500", 1))},
		{row: "B015", request: "POST /v2/trace/setting", body: `{"trace_rate":null}`, want: okJSON(start)},

		{row: "B016 E048", request: "GET /v2/logging", want: okJSON(logStart)},
		{row: "B016", request: "POST /v2/logging", body: `{"log_verbose_level":0,"log_info":true}`,
			want: okJSON(logStart)},
		{row: "DV47", request: "POST /v2/logging", body: `{"log_info":"x"}`,
			want: badJSON(tensorjson.ErrNotBoolean.Error())},
		{row: "R7 DV46", request: "POST /v2/logging", body: `{"nosuch":1}`,
			want: badJSON("unknown log setting 'nosuch'; known are log_info, log_warning, log_error, " +
				"log_verbose_level, log_format")},
		{row: "DV48 DV49", request: "POST /v2/logging", body: `{"log_format":"BAD","log_info":false}`,
			want: badJSON("invalid argument for --log_format, got: BAD")},
		{request: "POST /v2/logging", body: `{"log_verbose_level":-1}`,
			want: badJSON(tensorjson.ErrNotUnsigned.Error())},
		{row: "A20", request: "POST /v2/logging", body: `{"log_file":"/etc/cron.d/x"}`,
			want: fixed("log file location can not be updated through network protocol")},
		{request: "POST /v2/logging", body: `{"log_file":null,"log_info":null}`, want: okJSON(logStart)},
		{row: "B016", request: "POST /v2/logging",
			body: `{"log_info":false,"log_warning":false,"log_error":false,"log_verbose_level":2,` +
				`"log_format":"ISO8601"}`,
			want: okJSON(`{"log_file":"","log_info":false,"log_warning":false,"log_error":false,` +
				`"log_verbose_level":2,"log_format":"ISO8601"}`)},
	} {
		t.Run(strings.TrimSpace(tt.row+" "+tt.request+" "+tt.body), func(t *testing.T) {
			method, path, _ := strings.Cut(tt.request, " ")
			checkAnswer(t, send(t, conn, request(method, path, tt.body)), tt.want)
		})
	}
}

func TestSettingsWithoutTracing(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	for path, want := range map[string]string{
		"/v2/trace/setting": "the server does not support tracing",
		"/v2/logging":       "the server does not support dynamic logging",
	} {
		checkAnswer(t, send(t, conn, request("GET", path, "")), answer{status: "503 Service Unavailable",
			kind: typeJSON, body: `{"error":"` + want + `"}`})
	}
}

// The trace file has the timestamps of an HTTP request in order.
func TestTracedInference_E039(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	tr := tracer(t, trace.Settings{Level: trace.Timestamps, Rate: 1, Count: -1, File: file, Mode: trace.ModeTriton})
	e := realEngine(t)
	s := serve(t, func(o *Options) { o.Engine, o.Trace = e, tr })
	conn := dial(t, s.addr)
	send(t, conn, request("POST", "/v2/repository/models/add_sub/load", ""))
	checkAnswer(t, send(t, conn, request("POST", addSubPath, addSubJSON)), okJSON(addSubReply))
	if got := send(t, conn, request("POST", addSubPath, `{"inputs":[]}`)); got.status != "400 Bad Request" {
		t.Errorf("a wrong request answers %s", got.status)
	}
	send(t, conn, request("GET", "/v2", "")) // after it, the trace of the request before is written
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		ModelName  string `json:"model_name"`
		Timestamps []struct {
			Name string
			Ns   int64
		}
	}
	if err := json.Unmarshal(text, &all); err != nil || len(all) != 4 {
		t.Fatalf("%d elements, %v in %s; want those of two traces", len(all), err, text)
	}
	names := func(i int) (s string) {
		for _, m := range all[i].Timestamps {
			s += m.Name + " "
		}
		return s
	}
	if got, want := names(1), "HTTP_RECV_START HTTP_RECV_END REQUEST_START QUEUE_START COMPUTE_START "+
		"COMPUTE_INPUT_END COMPUTE_OUTPUT_START "+
		"COMPUTE_END INFER_RESPONSE_COMPLETE REQUEST_END HTTP_SEND_START HTTP_SEND_END "; got != want {
		t.Errorf("moments %s, want %s", got, want)
	}
	for i, m := range all[1].Timestamps[1:] {
		if m.Ns < all[1].Timestamps[i].Ns {
			t.Errorf("%s comes before %s", m.Name, all[1].Timestamps[i].Name)
		}
	}
	if got, want := names(3), "HTTP_RECV_START HTTP_RECV_END HTTP_SEND_START HTTP_SEND_END "; got != want {
		t.Errorf("moments of a refused request %s, want %s", got, want)
	}
}

// Every route that runs a model writes the timestamps of its request.
func TestTracedRoutes_E039(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	tr := tracer(t, trace.Settings{Level: trace.Timestamps, Rate: 1, Count: -1, File: file, Mode: trace.ModeTriton})
	e := realEngine(t)
	s := serve(t, func(o *Options) { o.Engine, o.Trace, o.V1 = e, tr, true })
	conn := dial(t, s.addr)
	for _, name := range []string{"id_bytes", "identity", "repeat"} {
		send(t, conn, request("POST", "/v2/repository/models/"+name+"/load", ""))
	}
	repeat := `{"inputs":[{"name":"IN","shape":[2],"datatype":"INT32","data":[1,2]},{"name":"DELAY","shape":[2],` +
		`"datatype":"UINT32","data":[0,0]},` +
		`{"name":"WAIT","shape":[1],"datatype":"UINT32","data":[0]}]}`
	const execution = "REQUEST_START QUEUE_START COMPUTE_START COMPUTE_INPUT_END COMPUTE_OUTPUT_START COMPUTE_END " +
		"INFER_RESPONSE_COMPLETE REQUEST_END "
	routes := []struct{ path, body, header string }{
		{"/v2/models/id_bytes/generate", `{"INPUT0":"a"}`, "X: y"},
		{"/v2/models/id_bytes/generate_stream", `{"INPUT0":"a"}`, "X: y"},
		{"/v2/models/repeat/generate_stream", `{"IN":[1,2],"DELAY":[0,0],"WAIT":0}`, "X: y"},
		{"/v2/models/repeat/infer", repeat, "Accept: text/event-stream"},
		{"/v1/models/identity:predict", `{"instances":[[` + zeroTo15 + `]]}`, "X: y"},
	}
	client := http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for _, r := range routes {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.addr+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		name, value, _ := strings.Cut(r.header, ": ")
		req.Header.Set(name, value)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s answers %s %s, %v", r.path, resp.Status, text, err)
		}
		resp.Body.Close()
	}
	// After this request, the trace of the one before is written.
	if resp, err := client.Get("http://" + s.addr + "/v2"); err != nil {
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	moments, models := readTraces(t, file)
	for i, r := range routes {
		id := uint64(i + 1)
		got := moments[id]
		if !strings.Contains(r.path, "/"+models[id]) || models[id] == "" {
			t.Errorf("%s: traced for model %q", r.path, models[id])
		}
		if !strings.HasPrefix(got, "HTTP_RECV_START HTTP_RECV_END ") || !strings.HasSuffix(got, " HTTP_SEND_END ") {
			t.Errorf("%s: moments %s", r.path, got)
		}
		for _, m := range strings.Fields(execution) {
			if !strings.Contains(got, m+" ") {
				t.Errorf("%s: no %s in %s", r.path, m, got)
			}
		}
	}
}

// readTraces returns the timestamps and the model of each trace in a file.
func readTraces(t *testing.T, file string) (moments, models map[uint64]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		ID         uint64
		ModelName  string `json:"model_name"`
		Timestamps []struct{ Name string }
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	moments, models = map[uint64]string{}, map[uint64]string{}
	for _, el := range all {
		if el.ModelName != "" {
			models[el.ID] = el.ModelName
		}
		for _, m := range el.Timestamps {
			moments[el.ID] += m.Name + " "
		}
	}
	return moments, models
}

// With rate 0, only requests with a W3C trace context are traced.
func TestTraceContext(t *testing.T) {
	var mu sync.Mutex
	var got []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, body...); err != nil {
			t.Error(err)
		}
	}))
	defer collector.Close()
	tr, err := trace.New(trace.Options{
		Settings:  trace.Settings{Level: trace.Timestamps, Rate: 0, Count: -1, Mode: trace.ModeOpenTelemetry},
		Telemetry: trace.Telemetry{URL: collector.URL + "/v1/traces"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *Options) { o.Trace = tr })
	conn := dial(t, s.addr)
	send(t, conn, request("POST", addSubPath, addSubJSON))
	send(t, conn, request("POST", addSubPath, addSubJSON,
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-7265616461626c65-01")) // the span "readable"
	send(t, conn, request("POST", addSubPath, addSubJSON)) // when it is answered, the trace of the one before has ended
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if all, wanted := bytes.Count(got, []byte("InferRequest")), bytes.Count(got, []byte("readable")); all != 1 ||
		wanted != 1 {
		t.Errorf("%d requests were traced, %d with the trace context; want one, with it", all, wanted)
	}
}
