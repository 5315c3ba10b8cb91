package metrics

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"nereid/engine/cache"
	"nereid/engine/device"
	"nereid/engine/gpumem"
	"nereid/engine/stats"
)

// Source gives the statistics of every model version, ordered by model and version. dst's memory may be reused.
type Source interface {
	Snapshots(dst []stats.Snapshot) []stats.Snapshot
}

// Distributor is a Source that keeps more of latencies than their sums; see stats.Registry.Distributions.
type Distributor interface {
	Distributions(model string, version int64, shares []float64, dst *stats.Distributions) bool
}

// Quantile is one that summaries show.
type Quantile struct {
	Share float64 // of the latencies, 0 to 1
	// Error is how far the share may be off. What is shown is the exact share's latency to within 1 % of it, so that this
	// is not used.
	Error float64
}

// DefaultQuantiles returns Triton's.
func DefaultQuantiles() []Quantile {
	return []Quantile{{0.5, 0.05}, {0.9, 0.01}, {0.95, 0.001}, {0.99, 0.001}, {0.999, 0.001}}
}

// Options say what is written. Only Source is needed.
type Options struct {
	Source Source
	// Cache gives the counts of the response cache; nil: there is none, nor its families.
	Cache func() cache.Stats
	// Custom appends the metrics that models make for themselves; nil: there are none.
	Custom func([]byte) []byte
	// GPUs are those whose figures are written (--allow-gpu-metrics); nil, or none: there are no families of them.
	GPUs *device.Machine
	// GPUMemory is the pools for transfers to GPUs; nil: there is no GPU.
	GPUMemory *gpumem.Memory
	// PinnedBytes is the bound of the pool of pinned memory, which is shown without a GPU too, as in Triton.
	PinnedBytes int64
	// Version is the program's, for nereid_build_info.
	Version string
	Log     *slog.Logger // nil: slog.Default

	// OmitCPU leaves out the nv_cpu_ families: --allow-cpu-metrics=false.
	OmitCPU bool
	// OmitCounterLatencies leaves out the nv_inference_*_duration_us counters and those of the cache per model: --metrics-config counter_latencies=false.
	OmitCounterLatencies bool
	// Quantiles are those of summaries, if Source is a Distributor and keeps them. nil: DefaultQuantiles.
	Quantiles []Quantile
	// OmitOwn leaves out the nereid_ families.
	OmitOwn bool
	// Interval is the least time over which nv_cpu_utilization is measured: --metrics-interval-ms. 0: 2 s.
	Interval time.Duration

	// Proc is where the proc file system is. "": "/proc".
	Proc string
}

// Exporter answers scrapes. Safe for concurrent use.
type Exporter struct {
	o       Options
	started time.Time

	mu        sync.Mutex // one scrape at a time; guards the rest
	snapshots []stats.Snapshot
	shares    []float64             // of Options.Quantiles
	details   []stats.Distributions // of snapshots; empty if Source is no Distributor
	cpu       cpuSampler
	failed    map[string]bool // by what could not be read: logged once
}

// New returns an exporter.
func New(o Options) (*Exporter, error) {
	if o.Source == nil {
		return nil, errors.New("metrics: Options.Source is nil")
	}
	if o.Interval < 0 {
		return nil, fmt.Errorf("metrics: interval %v is negative; use 0 for 2 s", o.Interval)
	}
	if o.Interval == 0 {
		o.Interval = 2 * time.Second
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	e := &Exporter{o: o, started: time.Now(), failed: map[string]bool{}}
	if e.o.Quantiles == nil {
		e.o.Quantiles = DefaultQuantiles()
	}
	for _, q := range e.o.Quantiles {
		e.shares = append(e.shares, q.Share)
	}
	e.cpu = cpuSampler{proc: o.Proc, every: o.Interval}
	if !o.OmitCPU {
		if _, err := e.cpu.utilization(time.Now()); err != nil {
			e.complain("CPU utilization", err)
		}
	}
	return e, nil
}

// ServeHTTP answers GET of /metrics; other methods get 405, other paths 404, with Triton's texts.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		refuse(w, http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		refuse(w, http.StatusMethodNotAllowed)
		return
	}
	body := e.Append(nil)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body); err != nil {
		e.o.Log.Debug("metrics client went away", "err", err)
	}
}

func refuse(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, `{"error":"`+http.StatusText(code)+`"}`) // the status says it already
}

// Append appends the present metrics as Prometheus text.
func (e *Exporter) Append(dst []byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.snapshots = e.o.Source.Snapshots(e.snapshots)
	w := writer{b: dst}
	e.models(&w)
	if e.o.Cache != nil {
		e.cache(&w)
	}
	if len(e.o.GPUs.GPUs()) > 0 {
		e.gpus(&w)
	}
	e.machine(&w)
	e.latencies(&w)
	if !e.o.OmitOwn {
		e.own(&w)
	}
	if e.o.Custom != nil {
		w.b = e.o.Custom(w.b)
	}
	return w.b
}

// complain logs once per source that it cannot be read; its families are then written without samples.
func (e *Exporter) complain(what string, err error) {
	if !e.failed[what] {
		e.failed[what] = true
		e.o.Log.Warn("metrics source cannot be read; its metrics have no samples", "source", what, "err", err)
	}
}

// machine writes what concerns the machine as a whole.
func (e *Exporter) machine(w *writer) {
	e.gpuMemory(w)
	if e.o.OmitCPU {
		return
	}
	w.family("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", "gauge")
	if u, err := e.cpu.utilization(time.Now()); err != nil {
		e.complain("CPU utilization", err)
	} else {
		w.plain("nv_cpu_utilization", float(u))
	}
	total, used, err := memory(e.o.Proc)
	if err != nil {
		e.complain("memory", err)
	}
	w.family("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", "gauge")
	if err == nil {
		w.plain("nv_cpu_memory_total_bytes", strconv.FormatUint(total, 10))
	}
	w.family("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", "gauge")
	if err == nil {
		w.plain("nv_cpu_memory_used_bytes", strconv.FormatUint(used, 10))
	}
}

// own writes what this server tells beyond Triton.
func (e *Exporter) own(w *writer) {
	e.histogram(w)
	w.family("nereid_build_info", "Version of the program, as labels; the value is always 1", "gauge")
	w.start("nereid_build_info", "version", e.o.Version, "go_version", runtime.Version())
	w.end("1")
	w.family("nereid_uptime_seconds", "Time since the metrics were set up, in seconds", "gauge")
	w.plain("nereid_uptime_seconds", float(time.Since(e.started).Seconds()))
	w.family("nereid_goroutines", "Goroutines of the process", "gauge")
	w.plain("nereid_goroutines", strconv.Itoa(runtime.NumGoroutine()))
	p, err := process(e.o.Proc)
	if err != nil {
		e.complain("process", err)
	}
	w.family("nereid_process_resident_memory_bytes", "Resident memory of the process, in bytes", "gauge")
	if err == nil {
		w.plain("nereid_process_resident_memory_bytes", strconv.FormatUint(p.resident, 10))
	}
	w.family("nereid_process_cpu_seconds_total", "CPU time of the process, user and system, in seconds", "counter")
	if err == nil {
		w.plain("nereid_process_cpu_seconds_total", float(p.cpu))
	}
}
