package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"nereid/engine/cache"
	"nereid/engine/device"
	"nereid/engine/gpumem"
	"nereid/engine/refusals"
	"nereid/engine/stats"
	"nereid/engine/system/proc"
)

// Source is where the statistics come from.
type Source interface {
	// Snapshots returns those of every model version, ordered by model and version. It may reuse dst's memory.
	Snapshots(dst []stats.Snapshot) []stats.Snapshot
}

// Distributor is a Source that keeps more of latencies than their sums. See stats.Registry.Distributions.
type Distributor interface {
	Distributions(model string, version int64, shares []float64, dst *stats.Distributions) bool
}

// Quantile is a quantile that summaries show.
type Quantile struct {
	Share float64 // of the latencies, 0 to 1
	// Error is the error that Triton allows for the share. It is not used: the latency that is shown is within 1 % of
	// that of the exact share.
	Error float64
}

// DefaultQuantiles returns Triton's default quantiles.
func DefaultQuantiles() []Quantile {
	return []Quantile{{0.5, 0.05}, {0.9, 0.01}, {0.95, 0.001}, {0.99, 0.001}, {0.999, 0.001}}
}

// Options choose the metrics. Only Source is required.
type Options struct {
	Source Source
	// Cache returns the counts of the response cache; nil: the families of the cache are absent.
	Cache func() cache.Stats
	// Custom appends the metrics of models; nil: there are none.
	Custom func([]byte) []byte
	// GPUs are those of --allow-gpu-metrics; nil or none: the families of GPUs are absent.
	GPUs *device.Machine
	// GPUMemory is the memory for transfers to GPUs; nil: there is no GPU.
	GPUMemory *gpumem.Memory
	// PinnedBytes is the size of the pool of pinned memory. As in Triton it is shown without a GPU too.
	PinnedBytes int64
	// Refusals are those of the front ends; nil: their family has no samples.
	Refusals *refusals.Log
	// LostSpans returns how many spans did not reach the collector, by the reason; nil, or no reason: their family is
	// absent.
	LostSpans func() map[string]uint64
	// HistoryFailing says that the last write of the history failed; nil: its family is absent.
	HistoryFailing func() bool
	// Version is that of the program, for nereid_build_info.
	Version string
	Log     *slog.Logger // nil: slog.Default

	// OmitCPU leaves out the nv_cpu_ families: --allow-cpu-metrics=false.
	OmitCPU bool
	// OmitCounterLatencies leaves out the nv_inference_*_duration_us counters and the counters of the cache per model:
	// --metrics-config counter_latencies=false.
	OmitCounterLatencies bool
	// Quantiles are those of summaries, if Source is a Distributor that keeps summaries. nil: DefaultQuantiles.
	Quantiles []Quantile
	// OmitOwn leaves out the nereid_ families.
	OmitOwn bool
	// Interval is the time over which nv_cpu_utilization is measured; see Sample: --metrics-interval-ms. 0: 2 s.
	Interval time.Duration

	// Proc is the path of the proc file system. "": "/proc".
	Proc string
}

// Exporter answers scrapes. Its methods are safe for concurrent use.
type Exporter struct {
	o       Options
	started time.Time
	scraped chan struct{} // receives at a scrape, for Sample

	mu        sync.Mutex // one scrape at a time; guards the rest
	snapshots []stats.Snapshot
	shares    []float64             // of Options.Quantiles
	details   []stats.Distributions // of snapshots; empty if Source is not a Distributor
	cpu       cpuSampler
	failed    map[string]bool // sources whose error has been logged
	// lastScrape is when nv_cpu_utilization was wanted last.
	lastScrape time.Time
}

// New returns an exporter.
func New(o Options) (*Exporter, error) {
	if o.Source == nil {
		return nil, errors.New("metrics: Options.Source is nil")
	}
	if o.Interval < 0 {
		return nil, fmt.Errorf("metrics: interval %v is negative; use 0 for 2 s", o.Interval)
	}
	o.Interval = cmp.Or(o.Interval, 2*time.Second)
	o.Proc = cmp.Or(o.Proc, proc.Root)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	e := &Exporter{o: o, started: time.Now(), failed: map[string]bool{}, scraped: make(chan struct{}, 1)}
	if e.o.Quantiles == nil {
		e.o.Quantiles = DefaultQuantiles()
	}
	for _, q := range e.o.Quantiles {
		e.shares = append(e.shares, q.Share)
	}
	e.cpu = cpuSampler{proc: o.Proc, every: o.Interval}
	if !o.OmitCPU {
		_, err := e.cpu.utilization(time.Now()) // begins the first interval
		e.warn("CPU utilization", err)
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
	_, _ = io.WriteString(w, `{"error":"`+http.StatusText(code)+`"}`) // the status is the answer
}

// Append appends the current metrics as Prometheus text.
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

// warn logs an error of a source, once per source.
func (e *Exporter) warn(source string, err error) {
	if err != nil && !e.failed[source] {
		e.failed[source] = true
		e.o.Log.Warn("metrics source cannot be read; its metrics have no samples", "source", source, "err", err)
	}
}

// machine writes the families of the machine as a whole.
func (e *Exporter) machine(w *writer) {
	e.gpuMemory(w)
	if e.o.OmitCPU {
		return
	}
	now := time.Now()
	e.noteScrape(now)
	u, err := e.cpu.utilization(now)
	e.warn("CPU utilization", err)
	w.single("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", "gauge", float(u), err)
	total, available, err := proc.MachineMemory(e.o.Proc)
	e.warn("memory", err)
	w.single("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", "gauge", whole(total), err)
	w.single("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", "gauge",
		whole(total-min(total, available)), err)
}

// own writes the families that Triton does not have.
func (e *Exporter) own(w *writer) {
	e.histogram(w)
	w.family("nereid_request_refused_total",
		"Requests answered with an error for which no model is at fault, by cause", "counter")
	counts, _ := e.o.Refusals.Counts()
	for i := range counts {
		c := &counts[i]
		w.start("nereid_request_refused_total", "protocol", c.Protocol, "cause", c.Cause)
		w.end(whole(c.Total))
	}
	if e.o.LostSpans != nil {
		e.lostSpans(w)
	}
	if e.o.HistoryFailing != nil {
		failing := 0
		if e.o.HistoryFailing() {
			failing = 1
		}
		w.single("nereid_history_failing", "1 while the history cannot be written, or else 0", "gauge", whole(failing),
			nil)
	}
	w.family("nereid_build_info", "Version of the program, as labels; the value is always 1", "gauge")
	w.start("nereid_build_info", "version", e.o.Version, "go_version", runtime.Version())
	w.end("1")
	w.single("nereid_uptime_seconds", "Time since the metrics were set up, in seconds", "gauge",
		float(time.Since(e.started).Seconds()), nil)
	w.single("nereid_goroutines", "Goroutines of the process", "gauge", whole(runtime.NumGoroutine()), nil)
	p, err := proc.ReadStat(e.o.Proc, "self")
	e.warn("process", err)
	w.single("nereid_process_resident_memory_bytes", "Resident memory of the process, in bytes", "gauge",
		whole(p.Resident), err)
	w.single("nereid_process_cpu_seconds_total", "CPU time of the process, user and system, in seconds", "counter",
		float(p.CPU.Seconds()), err)
}

// lostSpans writes the counts of spans that did not reach an OpenTelemetry collector.
func (e *Exporter) lostSpans(w *writer) {
	lost := e.o.LostSpans()
	if len(lost) == 0 {
		return
	}
	const name = "nereid_trace_spans_lost_total"
	w.family(name, "Spans that did not reach the OpenTelemetry collector, by reason", "counter")
	for _, reason := range slices.Sorted(maps.Keys(lost)) {
		w.start(name, "reason", reason)
		w.end(whole(lost[reason]))
	}
}
