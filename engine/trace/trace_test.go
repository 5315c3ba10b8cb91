package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// served stands for the version that takes the requests.
type served struct{ name string }

func (s served) Name() string         { return s.name }
func (served) Version() int64         { return 3 }
func (served) VersionText() string    { return "3" }
func (served) Decoupled() bool        { return false }
func (served) Batched() bool          { return false }
func (served) Labels(string) []string { return nil }

func open(t *testing.T, s Settings, tel Telemetry) *Tracer {
	t.Helper()
	tr, err := New(Options{Settings: s, Telemetry: tel})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, tr) })
	return tr
}

func shut(t *testing.T, tr *Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := tr.Close(ctx); err != nil {
		t.Error(err)
	}
}

// one does with a request what a front end, a model and an instance do, and reports whether it was traced.
func one(t *testing.T, tr *Tracer, model, id string, p Parent, inputs ...tensor.Tensor) bool {
	t.Helper()
	trace := tr.Sample(model, p)
	if trace == nil {
		return false
	}
	r := infer.New()
	defer r.Release()
	r.ModelName, r.ID, r.Served, r.Trace = model, id, served{model}, trace
	r.Inputs = append(r.Inputs, inputs...)
	trace.Mark(HTTPRecvStart, infer.Now())
	trace.Mark(HTTPRecvEnd, infer.Now())
	execute(t, r)
	trace.Mark(HTTPSendStart, infer.Now())
	trace.Mark(HTTPSendEnd, infer.Now())
	trace.End()
	return true
}

// execute executes a request whose backend records activities.
func execute(t *testing.T, r *infer.Request, activities ...string) {
	t.Helper()
	r.Times.Arrived = infer.Now()
	r.Trace.Admitted(r)
	r.Times.Queued = infer.Now()
	b := infer.NewBatch()
	b.Requests, b.Rows = append(b.Requests, r), 1
	b.Begin()
	b.MarkInput()
	for len(activities) > 0 && infer.Now() <= b.Input { // moments in one nanosecond have no order
	}
	for _, a := range activities {
		r.Activity(a)
	}
	b.MarkOutput()
	resp := r.NewResponse()
	for i := range r.Inputs {
		resp.AddOutput("OUT", r.Inputs[i].DataType, r.Inputs[i].Shape, r.Inputs[i].Data, nil)
	}
	resp.Final = true
	if err := r.Respond(resp); err != nil {
		t.Error(err)
	}
	b.End()
}

// element is an element of a trace file.
type element struct {
	ID           uint64 `json:"id"`
	ParentID     uint64 `json:"parent_id"`
	ModelName    string `json:"model_name"`
	ModelVersion int64  `json:"model_version"`
	RequestID    string `json:"request_id"`
	Timestamps   []struct {
		Name string `json:"name"`
		Ns   int64  `json:"ns"`
	} `json:"timestamps"`
	Activity string `json:"activity"`
	Tensor   struct{ Name, Data, Shape, DType string }
}

func read(t *testing.T, path string) []element {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []element
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("%s is no JSON: %v\n%s", path, err, text)
	}
	return all
}

func TestTimestamps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, File: file, Mode: ModeTriton}, Telemetry{})
	before := time.Now().Add(-time.Second).UnixNano()
	one(t, tr, "m", "a \"b\"\n", Parent{})
	one(t, tr, "m", "", Parent{})
	shut(t, tr)
	all := read(t, file)
	if len(all) != 4 {
		t.Fatalf("%d elements, want what and when of two traces", len(all))
	}
	t.Run("E039 moments", func(t *testing.T) {
		want := []string{"HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START", "QUEUE_START", "COMPUTE_START",
			"COMPUTE_INPUT_END",
			"COMPUTE_OUTPUT_START", "COMPUTE_END", "INFER_RESPONSE_COMPLETE", "REQUEST_END", "HTTP_SEND_START",
			"HTTP_SEND_END"}
		var got []string
		last := before
		for _, s := range all[1].Timestamps {
			got = append(got, s.Name)
			if s.Ns < last {
				t.Errorf("%s at %d, before what comes before it", s.Name, s.Ns)
			}
			last = s.Ns
		}
		if !slices.Equal(got, want) {
			t.Errorf("moments %v, want %v", got, want)
		}
		if last > time.Now().UnixNano() {
			t.Errorf("the last moment %d lies ahead", last)
		}
	})
	t.Run("ids", func(t *testing.T) {
		if a := all[0]; a.ID != 1 || a.ModelName != "m" || a.ModelVersion != 3 || a.RequestID != "a \"b\"\n" ||
			a.ParentID != 0 {
			t.Errorf("first trace %+v", a)
		}
		if all[1].ID != 1 || all[2].ID != 2 || all[3].ID != 2 || all[2].RequestID != "" {
			t.Errorf("traces %+v", all)
		}
	})
}

func TestEnsembleTracesHaveParents(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, File: file, Mode: ModeTriton}, Telemetry{})
	root := tr.Sample("ensemble", Parent{})
	r := infer.New()
	r.ModelName, r.Served, r.Trace = "ensemble", served{"ensemble"}, root
	r.Times.Arrived = infer.Now()
	r.Trace.Admitted(r)
	step := infer.New()
	step.ModelName, step.Served, step.Trace = "step", served{"step"}, r.Trace.Child()
	execute(t, step)
	step.Release()
	root.End() // the client has disconnected, the ensemble still runs
	if n := len(tr.queue); n != 0 {
		t.Errorf("%d traces are written before their request has ended", n)
	}
	r.Fail(errors.New("late"))
	r.Release()
	shut(t, tr)
	all := read(t, file)
	if len(all) != 4 || all[0].ModelName != "ensemble" || all[2].ModelName != "step" || all[2].ParentID != all[0].ID ||
		all[0].ID == all[2].ID {
		t.Errorf("traces %+v, want an ensemble and its step", all)
	}
}

func TestARequestAfterTheEndOfItsTraceIsNotFollowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, File: file, Mode: ModeTriton}, Telemetry{})
	root := tr.Sample("caller", Parent{})
	r := infer.New()
	r.ModelName, r.Served, r.Trace = "caller", served{"caller"}, root
	r.Times.Arrived = infer.Now()
	r.Trace.Admitted(r)
	called := infer.New()
	called.ModelName, called.Served, called.Trace = "called", served{"called"}, r.Trace.Child()
	r.Fail(errors.New("the caller does not wait"))
	r.Release()
	root.End()
	execute(t, called) // its model is loaded again only now
	called.Release()
	shut(t, tr)
	all := read(t, file)
	if len(all) != 2 || all[0].ModelName != "caller" {
		t.Errorf("traces %+v, want that of the caller, once", all)
	}
}

func TestTensors_E040(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	tr := open(t, Settings{Level: Tensors, Rate: 1, Count: -1, File: file, Mode: ModeTriton}, Telemetry{})
	for _, tt := range []struct {
		dt   tensor.DataType
		n    int64
		data string
		want string
	}{
		{tensor.Bool, 2, "\x01\x00", "1,0"},
		{tensor.Uint8, 2, "\x01\xff", "1,255"},
		{tensor.Uint16, 1, "\x01\xff", "65281"},
		{tensor.Uint32, 1, "\xff\xff\xff\xff", "4294967295"},
		{tensor.Uint64, 1, "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"},
		{tensor.Int8, 1, "\xff", "-1"},
		{tensor.Int16, 1, "\xfe\xff", "-2"},
		{tensor.Int32, 2, "\x01\x00\x00\x00\xff\xff\xff\xff", "1,-1"},
		{tensor.Int64, 1, "\x00\x00\x00\x00\x00\x00\x00\x80", "-9223372036854775808"},
		{tensor.FP16, 4, "\x00\x3c\x00\xc0\x01\x00\x00\x7c", "1,-2,5.9604645e-08,+Inf"},
		{tensor.BF16, 1, "\x80\xbf", "-1"},
		{tensor.FP32, 1, "\xcd\xcc\xcc\x3d", "0.1"},
		{tensor.FP64, 1, "\x00\x00\x00\x00\x00\x00\xf0\x3f", "1"},
		{tensor.Bytes, 2, "\x02\x00\x00\x00a\"\x00\x00\x00\x00", `"a"","",`[:len(`"a"",""`)]},
	} {
		one(t, tr, tt.dt.String()+"|"+tt.want, "", Parent{},
			tensor.Tensor{Name: "IN", DataType: tt.dt, Shape: []int64{tt.n, 1}, Data: []byte(tt.data)})
	}
	shut(t, tr)
	want := ""
	var activities []string
	seen := 0
	check := func() {
		if want != "" && !slices.Equal(activities,
			[]string{"TENSOR_QUEUE_INPUT IN", "TENSOR_BACKEND_OUTPUT OUT", "TENSOR_BACKEND_INPUT IN"}) {
			t.Errorf("activities %v", activities)
		}
	}
	for _, e := range read(t, file) {
		if e.ModelName != "" {
			check()
			want, activities = e.ModelName, nil
			continue
		}
		seen++
		activities = append(activities, e.Activity+" "+e.Tensor.Name)
		if got := e.Tensor.DType + "|" + e.Tensor.Data; got != want || !strings.HasSuffix(e.Tensor.Shape, ",1") ||
			len(e.Timestamps) != 0 {
			t.Errorf("tensor %q of shape %s, want %q", got, e.Tensor.Shape, want)
		}
	}
	check()
	if seen != 14*3 {
		t.Errorf("%d activities, want three of each request", seen)
	}
	if n := tr.bytes.Load(); n != 0 {
		t.Errorf("%d bytes of tensors are still counted", n)
	}
}

func TestCopiedTensorsAreLimited(t *testing.T) {
	tr := open(t, Settings{Level: Tensors, Rate: 1, Count: -1, File: filepath.Join(t.TempDir(), "t"), Mode: ModeTriton},
		Telemetry{})
	trace := tr.Sample("m", Parent{})
	big := tensor.Tensor{Name: "IN", DataType: tensor.Uint8, Shape: []int64{40 << 20}, Data: make([]byte, 40<<20)}
	r := infer.New()
	defer r.Release()
	r.Inputs = append(r.Inputs, big, big)
	trace.Admitted(r)
	if n := tr.bytes.Load(); n != 40<<20 || len(trace.tensors) != 1 || tr.lost.Load() != 1 {
		t.Errorf("%d bytes in %d tensors are kept and %d dropped; want one of each", n, len(trace.tensors),
			tr.lost.Load())
	}
}

func TestSampling(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		s    Settings
		sent int
		want int // traced
	}{
		{"E036 off", Settings{Rate: 1, Count: -1}, 5, 0},
		{"E036 every one", Settings{Level: Timestamps, Rate: 1, Count: -1}, 5, 5},
		{"E036 one in three", Settings{Level: Timestamps, Rate: 3, Count: -1}, 10, 3},
		{"E036 no more than the count", Settings{Level: Timestamps, Rate: 1, Count: 2}, 5, 2},
		{"E036 a count of one in two", Settings{Level: Timestamps, Rate: 2, Count: 1}, 5, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Mode, tt.s.File = ModeTriton, filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "_"))
			tr := open(t, tt.s, Telemetry{})
			n := 0
			for range tt.sent {
				if one(t, tr, "m", "", Parent{TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}) {
					n++
				}
			}
			if n != tt.want {
				t.Errorf("%d traced, want %d", n, tt.want)
			}
		})
	}
	if (*Tracer)(nil).On() || (*Tracer)(nil).Sample("m", Parent{}) != nil {
		t.Error("no tracer traces")
	}
}

func TestFiles_E038(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "t")
	traces := func(name string) int {
		n := 0
		for _, e := range read(t, filepath.Join(dir, name)) {
			if e.ModelName != "" {
				n++
			}
		}
		return n
	}
	tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, LogFrequency: 2, File: file, Mode: ModeTriton},
		Telemetry{})
	for range 5 {
		one(t, tr, "m", "", Parent{})
	}
	update(t, tr, "", "log_frequency", "0") // the third file stays as it is
	update(t, tr, "", "trace_count", "3")
	for range 4 {
		one(t, tr, "m", "", Parent{})
	}
	update(t, tr, "", "trace_count", "-1")
	for range 6 {
		one(t, tr, "m", "", Parent{})
	}
	shut(t, tr)
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, n := range names {
		got += fmt.Sprintf("%s:%d ", n.Name(), traces(n.Name()))
	}
	if want := "t:6 t.0:2 t.1:2 t.2:1 t.3:3 "; got != want {
		t.Errorf("files with traces %s, want %s", got, want)
	}
}

// The file is valid JSON at every moment while traces are written.
func TestTraceFileIsAlwaysValidJSON(t *testing.T) {
	w := writer{log: slog.New(slog.DiscardHandler), file: filepath.Join(t.TempDir(), "t"),
		groups: map[*setting]*array{}}
	s := newSetting(Settings{Level: Timestamps, Rate: 1, Count: -1, Mode: ModeTriton})
	for i := range 3 {
		tr := &Trace{setting: s, id: uint64(i + 1), model: "m"}
		tr.root = tr
		w.add(tr)
		w.flush()
		if n := len(read(t, w.file)); n != 2*(i+1) {
			t.Errorf("%d elements after %d traces", n, i+1)
		}
	}
	if err := w.close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUnwritableFileIsLoggedOnceAndRetried(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	var b strings.Builder
	w := writer{log: slog.New(slog.NewTextHandler(&b, nil)), file: filepath.Join(dir, "t"),
		groups: map[*setting]*array{}}
	s := newSetting(Settings{Level: Timestamps, Rate: 1, Count: -1, Mode: ModeTriton})
	add := func() {
		tr := &Trace{setting: s, model: "m"}
		tr.root = tr
		w.add(tr)
		w.flush()
	}
	add()
	add()
	if n := strings.Count(b.String(), "traces cannot be written"); n != 1 {
		t.Errorf("it is said %d times, want once:\n%s", n, b.String())
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	add()
	if n := len(read(t, w.file)); n != 2 {
		t.Errorf("%d elements once the folder is there, want those of one trace", n)
	}
	if err := w.close(t.Context()); err != nil {
		t.Error(err)
	}
}

func update(t *testing.T, tr *Tracer, model string, pairs ...string) {
	t.Helper()
	var u Update
	for i := 0; i < len(pairs); i += 2 {
		var values []string
		if pairs[i+1] != "" {
			values = strings.Split(pairs[i+1], "+")
		}
		if err := u.Put(pairs[i], values); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Update(model, u); err != nil {
		t.Fatal(err)
	}
}

func list(tr *Tracer, model string) string {
	var all []string
	for _, s := range tr.List(model) {
		all = append(all, strings.Join(s.Values, "+"))
	}
	return strings.Join(all, " ")
}

func TestInheritance_E037(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	tr := open(t, Settings{Level: Timestamps, Rate: 1000, Count: -1, File: file, Mode: ModeTriton}, Telemetry{})
	for _, tt := range []struct {
		name, model string
		change      []string
		server, of  string // of the model m: level rate count frequency
	}{
		{"at the start", "", nil, "TIMESTAMPS 1000 -1 0", "TIMESTAMPS 1000 -1 0"},
		{"a model's rate", "m", []string{"trace_rate", "5"}, "TIMESTAMPS 1000 -1 0", "TIMESTAMPS 5 -1 0"},
		{"the server's level shows in the model", "", []string{"trace_level", "TIMESTAMPS+TENSORS", "trace_rate", "7"},
			"TIMESTAMPS+TENSORS 7 -1 0", "TIMESTAMPS+TENSORS 5 -1 0"},
		{"a model's level", "m", []string{"trace_level", "OFF"}, "TIMESTAMPS+TENSORS 7 -1 0", "OFF 5 -1 0"},
		{"a cleared rate is the server's", "m", []string{"trace_rate", ""}, "TIMESTAMPS+TENSORS 7 -1 0", "OFF 7 -1 0"},
		{"a cleared level is the server's", "m", []string{"trace_level", ""}, "TIMESTAMPS+TENSORS 7 -1 0",
			"TIMESTAMPS+TENSORS 7 -1 0"},
		{"the server's cleared are those of the start", "", []string{"trace_level", "", "trace_rate", ""},
			"TIMESTAMPS 1000 -1 0", "TIMESTAMPS 1000 -1 0"},
		{"all four of a model", "m", []string{"trace_level", "OFF", "trace_rate", "1", "trace_count", "2",
			"log_frequency", "3"}, "TIMESTAMPS 1000 -1 0", "OFF 1 2 3"},
		{"the server's do not touch them", "", []string{"trace_level", "TENSORS", "trace_rate", "9", "trace_count", "8",
			"log_frequency", "7"}, "TENSORS 9 8 7", "OFF 1 2 3"},
	} {
		t.Run("E037 "+tt.name, func(t *testing.T) {
			update(t, tr, tt.model, tt.change...)
			tail := " " + file + " triton"
			if got := list(tr, ""); got != tt.server+tail {
				t.Errorf("server: %s, want %s", got, tt.server)
			}
			if got := list(tr, "m"); got != tt.of+tail {
				t.Errorf("model: %s, want %s", got, tt.of)
			}
			if got := list(tr, "other"); got != tt.server+tail {
				t.Errorf("another model: %s, want the server's", got)
			}
		})
	}
}

func TestRefusedUpdates(t *testing.T) {
	tr := open(t, Settings{Rate: 1000, Count: -1, Mode: ModeTriton}, Telemetry{})
	for _, tt := range []struct {
		name, key, value string
		want             string
		code             status.Code
	}{
		{"R7 unknown level", "trace_level", "BAD", "trace_level: 'BAD' is none of OFF, TIMESTAMPS, TENSORS",
			status.InvalidArg},
		{"R7 unknown key", "no\nsuch", "1",
			`unknown trace setting 'no\nsuch'; known are trace_level, trace_rate, trace_count, log_frequency`,
			status.InvalidArg},
		{"OFF and another", "trace_level", "OFF+TENSORS", "Expect only one trace level 'OFF' is specified",
			status.InvalidArg},
		{"A20 trace_file", "trace_file", "/etc/passwd",
			"trace file location can not be updated through network protocol", status.Unsupported},
		{"trace_mode", "trace_mode", "opentelemetry",
			"trace_mode can not be updated through network protocol; start the server with --trace-config=mode=<mode>",
			status.InvalidArg},
		{"no number", "trace_rate", "x", "Unable to parse 'trace_rate', got: x", status.InvalidArg},
		{"two numbers", "trace_rate", "1+2", "expect only 1 value for 'trace_rate'", status.InvalidArg},
		{"too large", "trace_rate", "4294967296",
			"Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 4294967296",
			status.InvalidArg},
		{"too small", "trace_count", "-2", "Unable to parse 'trace_count'. Expecting value >= -1, got:-2",
			status.InvalidArg},
		{"frequency", "log_frequency", "99999999999999999999",
			"Unable to parse 'log_frequency', value is out of range [ 0, 4294967295 ], got: 99999999999999999999",
			status.InvalidArg},
		{"no file", "trace_level", "TIMESTAMPS",
			"Attempting to set invalid trace setting :trace file name is not given", status.InvalidArg},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var u Update
			err := u.Put(tt.key, strings.Split(tt.value, "+"))
			if err == nil {
				err = tr.Update("", u)
			}
			if status.CodeOf(err) != tt.code || err == nil || err.Error() != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if got, want := list(tr, ""), "OFF 1000 -1 0  triton"; got != want {
				t.Errorf("settings after it: %s", got)
			}
		})
	}
	for _, o := range []Options{{}, {Settings: Settings{Mode: "x"}},
		{Settings: Settings{Mode: ModeTriton, Count: -2}}} {
		if tr, err := New(o); err == nil {
			shut(t, tr)
			t.Errorf("New(%+v) passes", o)
		}
	}
}

// endpoint is an OpenTelemetry collector.
func endpoint(t *testing.T) (url string, spans func() []*otlp.Span, resource func() string) {
	var mu sync.Mutex
	var all []*otlp.Span
	attrs := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("export to %s: %v", r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range req.GetResourceSpans() {
			attrs = ""
			for _, a := range rs.GetResource().GetAttributes() {
				attrs += a.GetKey() + "=" + a.GetValue().GetStringValue() + " "
			}
			for _, ss := range rs.GetScopeSpans() {
				all = append(all, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1/traces", func() []*otlp.Span { mu.Lock(); defer mu.Unlock(); return all },
		func() string { mu.Lock(); defer mu.Unlock(); return attrs }
}

// A server whose time to stop is over must not warn of lost traces that never were.
func TestClosingWithoutTracesWaitsForNothing(t *testing.T) {
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		tr, err := New(Options{Settings: Default()})
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Close(late); err != nil {
			t.Fatal(err)
		}
	}
}

// The limits of the environment are used, so the settings must show them.
func TestE042_SettingsShowTheEnvironmentsLimits(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "700")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "30")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
	url, _, _ := endpoint(t)
	tr := open(t, Settings{Rate: 1, Count: -1, Mode: ModeOpenTelemetry}, Telemetry{URL: url, MaxExportBatchSize: 20})
	if got, want := list(tr, ""), "OFF 1 -1 opentelemetry 20 700 200 "+url; got != want {
		t.Errorf("settings %s, want %s", got, want)
	}
	shut(t, tr)
}

func TestOpenTelemetry_E042(t *testing.T) {
	url, spans, resource := endpoint(t)
	tr := open(t, Settings{Level: Timestamps, Rate: 0, Count: -1, Mode: ModeOpenTelemetry},
		Telemetry{URL: url, Resource: [][2]string{{"service.name", "here"}}, MaxQueueSize: 100})
	if one(t, tr, "m", "", Parent{}) || one(t, tr, "m", "", Parent{TraceParent: "rubbish"}) {
		t.Error("rate 0 traces a request without a trace context")
	}
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	if !one(t, tr, "m", "r1", Parent{TraceParent: "00-" + id + "-" + parent + "-01"}) {
		t.Fatal("a request with a trace context is not traced")
	}
	shut(t, tr)
	by := map[string]*otlp.Span{}
	for _, s := range spans() {
		by[s.GetName()] = s
		if fmt.Sprintf("%x", s.GetTraceId()) != id {
			t.Errorf("span %s has trace id %x, want the client's", s.GetName(), s.GetTraceId())
		}
	}
	root, request, compute := by["InferRequest"], by["m"], by["compute"]
	if len(by) != 3 || root == nil || request == nil || compute == nil {
		t.Fatalf("spans %v", by)
	}
	if fmt.Sprintf("%x", root.GetParentSpanId()) != parent ||
		string(request.GetParentSpanId()) != string(root.GetSpanId()) ||
		string(compute.GetParentSpanId()) != string(request.GetSpanId()) {
		t.Error("the spans are not under each other")
	}
	if root.GetStartTimeUnixNano() > request.GetStartTimeUnixNano() ||
		request.GetStartTimeUnixNano() > compute.GetStartTimeUnixNano() ||
		compute.GetEndTimeUnixNano() > request.GetEndTimeUnixNano() ||
		request.GetEndTimeUnixNano() > root.GetEndTimeUnixNano() {
		t.Error("the spans are not inside each other")
	}
	attrs := ""
	for _, a := range request.GetAttributes() {
		attrs += fmt.Sprintf("%s=%s%d ", a.GetKey(), a.GetValue().GetStringValue(), a.GetValue().GetIntValue())
	}
	if want := "triton.model_name=m0 triton.model_version=3 triton.trace_id=1 triton.trace_parent_id=0 " +
		"triton.request_id=r10 "; attrs != want {
		t.Errorf("attributes %s, want %s", attrs, want)
	}
	events := func(s *otlp.Span) (names string) {
		for _, e := range s.GetEvents() {
			names += e.GetName() + " "
		}
		return names
	}
	if got := events(root) + "| " + events(request) + "| " +
		events(compute); got != "HTTP_RECV_START HTTP_RECV_END INFER_RESPONSE_COMPLETE HTTP_SEND_START HTTP_SEND_END "+
		"| REQUEST_START QUEUE_START REQUEST_END | COMPUTE_START COMPUTE_INPUT_END "+
		"COMPUTE_OUTPUT_START COMPUTE_END " {
		t.Errorf("events %s", got)
	}
	if !strings.Contains(resource(), "service.name=here ") {
		t.Errorf("resource %s", resource())
	}
	if got, want := list(tr, ""), "TIMESTAMPS 0 -1 opentelemetry 512 100 5000 service.name=here "+url; got != want {
		t.Errorf("settings %s, want %s", got, want)
	}
}

// busy sends a traced request whose backend records activities.
func busy(t *testing.T, tr *Tracer, activities ...string) {
	t.Helper()
	trace := tr.Sample("m", Parent{})
	r := infer.New()
	defer r.Release()
	r.ModelName, r.Served, r.Trace = "m", served{"m"}, trace
	execute(t, r, activities...)
	r.Activity("LATE") // it is not recorded
	trace.End()
}

func TestActivitiesInFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t")
	tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, File: file, Mode: ModeTriton}, Telemetry{})
	busy(t, tr, "TOKENIZE_START", "a \"b\"", "TOKENIZE_END")
	many := make([]string, maxActivities+10)
	for i := range many {
		many[i] = "X"
	}
	busy(t, tr, many...)
	shut(t, tr)
	all := read(t, file)
	t.Run("E043 activities are among the moments, in order", func(t *testing.T) {
		var names []string
		last := int64(0)
		for _, m := range all[1].Timestamps {
			names = append(names, m.Name)
			if m.Ns < last {
				t.Errorf("%s comes before the one before it", m.Name)
			}
			last = m.Ns
		}
		want := "REQUEST_START QUEUE_START COMPUTE_START COMPUTE_INPUT_END TOKENIZE_START a \"b\" TOKENIZE_END " +
			"COMPUTE_OUTPUT_START COMPUTE_END INFER_RESPONSE_COMPLETE REQUEST_END"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("moments %s, want %s", got, want)
		}
	})
	if n := len(all[3].Timestamps); n != maxActivities+8 {
		t.Errorf("%d moments of a backend that does not stop, want %d and the engine's 8", n, maxActivities)
	}
	// Without a trace it has no effect.
	r := infer.New()
	defer r.Release()
	r.Activity("X")
}

func TestActivitiesAsSpans(t *testing.T) {
	url, spans, _ := endpoint(t)
	tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, Mode: ModeOpenTelemetry}, Telemetry{URL: url})
	busy(t, tr, "A_END", "CUSTOM_START", "CUSTOM_END", "SINGLE", "OUTER_START", "ONE", "INNER_START", "INNER_END",
		"OUTER_END", "OPEN_START", "_START", "_END")
	shut(t, tr)
	by, names := map[string]*otlp.Span{}, map[string]string{}
	for _, s := range spans() {
		by[s.GetName()], names[string(s.GetSpanId())] = s, s.GetName()
	}
	for _, tt := range []struct{ name, parent, events string }{
		{"m", "InferRequest", "REQUEST_START QUEUE_START REQUEST_END A_END SINGLE"},
		{"CUSTOM", "m", "CUSTOM_START CUSTOM_END"},
		{"OUTER", "m", "OUTER_START ONE OUTER_END"},
		{"INNER", "OUTER", "INNER_START INNER_END"},
		{"OPEN", "m", "OPEN_START _START _END"},
		{"compute", "m", "COMPUTE_START COMPUTE_INPUT_END COMPUTE_OUTPUT_START COMPUTE_END"},
	} {
		t.Run("E043 span "+tt.name, func(t *testing.T) {
			s := by[tt.name]
			if s == nil {
				t.Fatalf("no such span; there are %v", names)
			}
			var events []string
			for _, e := range s.GetEvents() {
				events = append(events, e.GetName())
			}
			if got := strings.Join(events, " "); got != tt.events || names[string(s.GetParentSpanId())] != tt.parent {
				t.Errorf("under %s with events %s, want under %s with %s", names[string(s.GetParentSpanId())], got,
					tt.parent, tt.events)
			}
			if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() ||
				s.GetEndTimeUnixNano() > by["m"].GetEndTimeUnixNano() {
				t.Error("it does not end, or after its request")
			}
		})
	}
	if len(by) != 7 {
		t.Errorf("%d spans: %v", len(by), names)
	}
}

func TestOpenTelemetryEnvironment_H090(t *testing.T) {
	url, spans, resource := endpoint(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", strings.TrimSuffix(url, "/v1/traces"))
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment=edge")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, Mode: ModeOpenTelemetry}, Telemetry{})
	one(t, tr, "m", "", Parent{})
	shut(t, tr)
	if len(spans()) != 3 || !strings.Contains(resource(), "deployment=edge ") {
		t.Errorf("%d spans from %q, want 3 with the attributes of the environment", len(spans()), resource())
	}
}

func BenchmarkOff(b *testing.B) {
	tr, err := New(Options{Settings: Default()})
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close(context.Background())
	b.ReportAllocs()
	for b.Loop() {
		if tr.Sample("m", Parent{}) != nil {
			b.Fatal("traced")
		}
	}
}

// A request of a decoupled model has an event for each response, and keeps the first of them.
func TestSpansKeepAllEvents_E042(t *testing.T) {
	const n = 300
	for limit, want := range map[string]int{"": n + 5, "4": 4} { // its own and those of HTTP
		t.Setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", limit)
		url, spans, _ := endpoint(t)
		tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, Mode: ModeOpenTelemetry}, Telemetry{URL: url})
		trace := tr.Sample("m", Parent{})
		r := infer.New()
		r.ModelName, r.Served, r.Trace = "m", served{"m"}, trace
		trace.Mark(HTTPRecvStart, infer.Now())
		trace.Mark(HTTPRecvEnd, infer.Now())
		r.Times.Arrived = infer.Now()
		trace.Admitted(r)
		for range n {
			trace.Responded(r, &infer.Response{})
		}
		r.Fail(errors.New("the last one"))
		trace.Mark(HTTPSendStart, infer.Now())
		trace.Mark(HTTPSendEnd, infer.Now())
		trace.End()
		r.Release()
		shut(t, tr)
		for _, s := range spans() {
			if got := len(s.GetEvents()); s.GetName() == rootSpan && got != want {
				t.Errorf("limit %q: %d events, want %d", limit, got, want)
			}
		}
	}
}

// What the client asked for is in the trace of a request that no model admits.
func TestARefusedRequestHasItsID_E041(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t")
	tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, File: file, Mode: ModeTriton}, Telemetry{})
	trace := tr.Sample("m", Parent{})
	trace.Asked(7, "mine")
	trace.End()
	shut(t, tr)
	if all := read(t, file); all[0].ModelName != "m" || all[0].ModelVersion != 7 || all[0].RequestID != "mine" {
		t.Errorf("%+v", all[0])
	}
}

func TestTensorsAloneHaveNoTimestampsInSpans_E039(t *testing.T) {
	url, spans, _ := endpoint(t)
	tr := open(t, Settings{Level: Tensors, Rate: 1, Count: -1, Mode: ModeOpenTelemetry}, Telemetry{URL: url})
	one(t, tr, "m", "", Parent{})
	shut(t, tr)
	if all := spans(); len(all) != 1 || all[0].GetName() != rootSpan || len(all[0].GetEvents()) > 0 {
		t.Errorf("%v", all)
	}
}

// With namespaces the request of a step names the model and its repository. The trace has the name alone.
func TestTheModelOfATraceHasNoNamespace_E041(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t")
	tr := open(t, Settings{Level: Timestamps, Rate: 1, Count: -1, File: file, Mode: ModeTriton}, Telemetry{})
	trace := tr.Sample("e", Parent{})
	r := infer.New()
	r.ModelName, r.Served, r.Trace = "/repository/m", served{"m"}, trace
	execute(t, r)
	trace.End()
	r.Release()
	shut(t, tr)
	if all := read(t, file); all[0].ModelName != "m" {
		t.Errorf("the model is %q", all[0].ModelName)
	}
}

// Triton's documentation says of requests with a trace context that they are traced regardless of rate and count.
func TestATraceContextNeedsNoCount_E042(t *testing.T) {
	url, _, _ := endpoint(t)
	context := Parent{TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	for _, tt := range []struct {
		rate        uint32
		left, plain int // of the count of one after three requests with a context, and of two without
	}{{rate: 100, left: 1, plain: 0}, {rate: 1, left: 0, plain: 0}, {rate: 5, left: 0, plain: 1}} {
		s := Settings{Level: Timestamps, Rate: tt.rate, Count: 1, Mode: ModeOpenTelemetry}
		tr := open(t, s, Telemetry{URL: url})
		for range 3 {
			if !one(t, tr, "m", "", context) {
				t.Errorf("rate %d: a request with a context is not traced", tt.rate)
			}
		}
		plain := 0
		for range 2 {
			if one(t, tr, "m", "", Parent{}) {
				plain++
			}
		}
		if left := int(tr.Settings("").Count); left != tt.left || plain != tt.plain {
			t.Errorf("rate %d: a count of %d is left, and %d others are traced; want %d and %d", tt.rate, left, plain,
				tt.left, tt.plain)
		}
		shut(t, tr)
	}
}
