package metrics

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/cache"
	"nereid/engine/stats"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type source []stats.Snapshot

func (s source) Snapshots(dst []stats.Snapshot) []stats.Snapshot { return append(dst[:0], s...) }

// threeRequests counts three requests of batch size 2 to one model, and a failed one to another.
func threeRequests() source {
	a := stats.Snapshot{Model: "identity_ort", Version: 1, Pending: 0}
	a.LoadTime = 4683712 * time.Nanosecond
	a.Success = stats.Total{Count: 3, Ns: 854670}
	a.Queue = stats.Total{Count: 3, Ns: 207516}
	a.Input = stats.Total{Count: 3, Ns: 103426}
	a.Infer = stats.Total{Count: 3, Ns: 173980}
	a.Output = stats.Total{Count: 3, Ns: 64247}
	a.Inferences, a.Executions, a.InputBytes = 6, 3, 384
	a.Latency[stats.Bucket(200*time.Microsecond)] = 1
	a.Latency[stats.Bucket(300*time.Microsecond)] = 1
	a.Latency[stats.Bucket(1000*time.Second)] = 1
	b := stats.Snapshot{Model: "a \"quoted\"\\name\nof \xff", Version: 12, Pending: 7}
	b.Failures[stats.BackendFailure] = 1
	return source{a, b}
}

// procFolder makes a proc file system with fixed numbers.
func procFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"stat":    "cpu  100 0 50 840 10 0 0 0 5 0\ncpu0 1 2 3\n",
		"meminfo": "MemTotal:       24684092 kB\nMemFree:        100 kB\nMemAvailable:   22453416 kB\n",
		"self/stat": "42 (a (b) c) S 1 1 1 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 9 0 1000 1000000 2560 " +
			"18446744073709551615 0 0 0\n",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// moving matches the samples whose values depend on the time and the machine.
var moving = regexp.MustCompile(
	`(?m)^(nereid_uptime_seconds|nereid_goroutines|nereid_process_resident_memory_bytes) .*$`)

func TestText(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
	}{
		{name: "full", change: func(*Options) {}},
		{name: "triton_only", change: func(o *Options) { o.OmitOwn = true }},
		{name: "least", change: func(o *Options) { o.OmitOwn, o.OmitCPU, o.OmitCounterLatencies = true, true, true }},
		{name: "cache", change: func(o *Options) {
			s := threeRequests()
			s[0].Cached, s[0].CacheHit, s[0].CacheMiss = true, stats.Total{Count: 5, Ns: 7000},
				stats.Total{Count: 2, Ns: 9999}
			o.Source, o.OmitOwn, o.OmitCPU = s, true, true
			o.Cache = func() cache.Stats {
				return cache.Stats{Size: 1000, Used: 250, Entries: 2, Lookups: 7, Hits: 5, Misses: 2, Evictions: 1,
					Lookup: 8 * time.Microsecond, Insertion: 9 * time.Microsecond}
			}
		}},
		{name: "no_models", change: func(o *Options) { o.Source, o.OmitOwn = source{}, true }},
		{name: "no_proc", change: func(o *Options) { o.Source, o.Proc = source{}, filepath.Join(o.Proc, "none") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Source: threeRequests(), Version: "1.2.3", Proc: procFolder(t),
				Log: slog.New(slog.DiscardHandler)}
			tt.change(&o)
			e, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			got := moving.ReplaceAll(e.Append(nil), []byte("$1 <value>"))
			got = []byte(regexp.MustCompile(`go_version="[^"]*"`).ReplaceAllString(string(got), `go_version="<go>"`))
			golden := filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("metrics differ from %s (rewrite with -update):\n%s", golden, got)
			}
		})
	}
}

// TestSyntax checks every line against the text format's grammar.
func TestSyntax(t *testing.T) {
	e, err := New(Options{Source: threeRequests()})
	if err != nil {
		t.Fatal(err)
	}
	comment := regexp.MustCompile(`^# (HELP [a-z_]+ .+|TYPE [a-z_]+ (counter|gauge|histogram))$`)
	sample := regexp.MustCompile(
		`^[a-z_]+(\{[a-z_]+="([^"\\\n]|\\[\\"n])*"(,[a-z_]+="([^"\\\n]|\\[\\"n])*")*\})? (\S+)$`)
	for line := range strings.Lines(string(e.Append(nil))) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			if !comment.MatchString(line) {
				t.Errorf("comment %q", line)
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("sample %q", line)
			continue
		}
		if _, err := strconv.ParseFloat(m[len(m)-1], 64); err != nil {
			t.Errorf("sample %q: %v", line, err)
		}
	}
}

func TestHistogramCountsAreExact(t *testing.T) {
	s := stats.Snapshot{Model: "m", Version: 1}
	s.Latency[stats.Bucket(1<<20-1)]++
	s.Latency[stats.Bucket(1<<20)]++
	e, err := New(Options{Source: source{s}, Proc: procFolder(t)})
	if err != nil {
		t.Fatal(err)
	}
	text := string(e.Append(nil))
	for _, want := range []string{
		`_bucket{model="m",version="1",le="0.000524288"} 0`,
		`_bucket{model="m",version="1",le="0.001048576"} 1`,
		`_bucket{model="m",version="1",le="0.002097152"} 2`,
		`_bucket{model="m",version="1",le="+Inf"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no sample %s in\n%s", want, text)
		}
	}
}

func TestUtilization_E029(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proc := procFolder(t)
		c := cpuSampler{proc: proc, every: 2 * time.Second}
		next := func(stat string, after time.Duration, want float64) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(proc, "stat"), []byte(stat), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(after)
			if got, err := c.utilization(time.Now()); err != nil || got != want {
				t.Errorf("utilization = %v, %v; want %v", got, err, want)
			}
		}
		next("cpu 100 0 0 100 0 0 0 0", 0, 0)
		next("cpu 200 0 0 100 0 0 0 0", time.Second, 0) // too early
		next("cpu 150 0 0 200 50 0 0 0", time.Second, 0.25)
		next("cpu 150 0 0 200 50 0 0 0", 3*time.Second, 0.25) // no tick passed: the last value stands
		next("cpu 150 0 0 180 50 0 0 100", 3*time.Second, 1)  // idle time ran backwards
	})
}

// A scrape gets the figure of the last interval, however long the scrape before is ago, and whoever scraped meanwhile.
func TestUtilizationOfTheLastInterval_E029(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := procFolder(t)
		busy, idle := 100, 100
		pass := func(moreBusy, moreIdle int, d time.Duration) {
			t.Helper()
			busy, idle = busy+moreBusy, idle+moreIdle
			text := fmt.Sprintf("cpu %d 0 0 %d 0 0 0 0", busy, idle)
			if err := os.WriteFile(filepath.Join(folder, "stat"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
			synctest.Wait()
		}
		pass(0, 0, 0)
		e, err := New(Options{Source: source{}, Proc: folder})
		if err != nil {
			t.Fatal(err)
		}
		scraped := func(want string) {
			t.Helper()
			if text := string(e.Append(nil)); !strings.Contains(text, "\nnv_cpu_utilization "+want+"\n") {
				t.Errorf("%s, want %s", regexp.MustCompile("(?m)^nv_cpu_utilization.*").FindString(text), want)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		var sampler sync.WaitGroup
		defer sampler.Wait()
		defer stop()
		sampler.Go(func() { e.Sample(ctx) })
		scraped("0")
		pass(100, 0, 2*time.Second)
		pass(0, 100, 2*time.Second)
		pass(25, 75, 2*time.Second)
		scraped("0.25")
		pass(50, 50, time.Second) // the interval goes on
		scraped("0.25")
		pass(0, 0, time.Second)
		scraped("0.5")
		pass(0, 100, restAfter+time.Minute)
		pass(100, 0, time.Minute)
		pass(0, 100, time.Minute)
		scraped("0.5") // of both minutes: nothing was measured meanwhile
		pass(100, 0, 2*time.Second)
		pass(10, 90, 2*time.Second)
		scraped("0.1")
	})
}

func TestServeHTTP(t *testing.T) {
	e, err := New(Options{Source: threeRequests()})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path string
		code         int
		kind, body   string
	}{
		{http.MethodGet, "/metrics", 200, "text/plain; charset=utf-8", ""},
		{http.MethodHead, "/metrics", 405, "text/plain", `{"error":"Method Not Allowed"}`},
		{http.MethodPost, "/metrics", 405, "text/plain", `{"error":"Method Not Allowed"}`},
		{http.MethodDelete, "/metrics", 405, "text/plain", `{"error":"Method Not Allowed"}`},
		{http.MethodGet, "/metrics/", 404, "text/plain", `{"error":"Not Found"}`},
	} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if body := w.Body.String(); w.Code != tt.code || tt.body != "" && body != tt.body || tt.body == "" &&
			!strings.HasPrefix(body, "# HELP ") {
			t.Errorf("%s %s = %d %.60q, want %d %q", tt.method, tt.path, w.Code, body, tt.code, tt.body)
		}
		if ct := w.Header().Get("Content-Type"); ct != tt.kind {
			t.Errorf("%s %s has Content-Type %q", tt.method, tt.path, ct)
		}
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New without a source passes")
	}
	if _, err := New(Options{Source: source{}, Interval: -1}); err == nil {
		t.Error("New with a negative interval passes")
	}
}

func TestFamilies(t *testing.T) {
	e, err := New(Options{Source: threeRequests(), Proc: procFolder(t)})
	if err != nil {
		t.Fatal(err)
	}
	text := string(e.Append(nil))
	of := `{model="identity_ort",version="1"}`
	for _, tt := range []struct{ name, kind, sample string }{
		{"E001 nv_inference_request_success", "counter", of + " 3"},
		{"E002 nv_inference_request_failure", "counter", `{model="identity_ort",reason="REJECTED",version="1"} 0`},
		{"E003 nv_inference_count", "counter", of + " 6"},
		{"E004 nv_inference_exec_count", "counter", of + " 3"},
		{"E005 nv_inference_request_duration_us", "counter", of + " 854"},
		{"E006 nv_inference_queue_duration_us", "counter", of + " 207"},
		{"E007 nv_inference_compute_input_duration_us", "counter", of + " 103"},
		{"E008 nv_inference_compute_infer_duration_us", "counter", of + " 173"},
		{"E009 nv_inference_compute_output_duration_us", "counter", of + " 64"},
		{"E010 nv_inference_pending_request_count", "gauge", of + " 0"},
		{"E023 nv_cpu_utilization", "gauge", " 0"},
		{"E024 nv_cpu_memory_total_bytes", "gauge", " 25276510208"},
		{"E024 nv_cpu_memory_used_bytes", "gauge", " 2284212224"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, family, _ := strings.Cut(tt.name, " ")
			for _, line := range []string{"# TYPE " + family + " " + tt.kind + "\n", "\n" + family + tt.sample + "\n"} {
				if !strings.Contains(text, line) {
					t.Errorf("no line %q in\n%s", line, text)
				}
			}
		})
	}
}

func TestCacheFamilies(t *testing.T) {
	s := threeRequests()
	s[0].Cached, s[0].CacheHit, s[0].CacheMiss = true, stats.Total{Count: 5, Ns: 7000}, stats.Total{Count: 2, Ns: 9999}
	e, err := New(Options{Source: s, Proc: procFolder(t), Cache: func() cache.Stats {
		return cache.Stats{Size: 1000, Used: 250, Entries: 2, Lookups: 7, Hits: 5, Misses: 2, Evictions: 1,
			Lookup: 8 * time.Microsecond, Insertion: 9 * time.Microsecond}
	}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(e.Append(nil))
	of := `{model="identity_ort",version="1"}`
	for _, tt := range []struct{ name, sample string }{
		{"E012 nv_cache_num_hits_per_model", of + " 5"},
		{"E012 nv_cache_num_misses_per_model", of + " 2"},
		{"E013 nv_cache_hit_duration_per_model", of + " 7"},
		{"E013 nv_cache_miss_duration_per_model", of + " 9"},
		{"E026 nv_cache_util", " 0.25"},
		{"E026 nv_cache_num_entries", " 2"},
		{"E026 nv_cache_num_hits", " 5"},
		{"E026 nv_cache_num_misses", " 2"},
		{"E026 nv_cache_num_lookups", " 7"},
		{"E026 nv_cache_num_evictions", " 1"},
		{"E026 nv_cache_lookup_duration", " 8"},
		{"E026 nv_cache_insertion_duration", " 9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, family, _ := strings.Cut(tt.name, " ")
			if !strings.Contains(text, "\n"+family+tt.sample+"\n") ||
				strings.Count(text, "\n"+family+"{")+strings.Count(text, "\n"+family+" ") != 1 {
				t.Errorf("not one sample %s%s in\n%s", family, tt.sample, text)
			}
		})
	}
}

func TestSeriesFollowTheModels(t *testing.T) {
	s := &changing{}
	e, err := New(Options{Source: s, Proc: procFolder(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		source source
		want   bool
	}{
		{"E030 no model", nil, false}, {"E030 loaded", threeRequests(), true}, {"E030 unloaded", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.source = tt.source
			if got := strings.Contains(string(e.Append(nil)), `{model="identity_ort",version="1"}`); got != tt.want {
				t.Errorf("the model has series: %v, want %v", got, tt.want)
			}
		})
	}
}

type changing struct{ source }
