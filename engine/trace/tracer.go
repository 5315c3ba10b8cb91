package trace

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"nereid/engine/infer"
)

// Options configure a Tracer.
type Options struct {
	// Settings are those of the start, to which cleared settings return.
	Settings Settings
	// Telemetry is for ModeOpenTelemetry.
	Telemetry Telemetry
	Log       *slog.Logger // nil: none
}

const (
	// Traces beyond these limits are dropped and counted.
	queueLength  = 4096     // finished traces that wait to be written
	tensorBudget = 64 << 20 // bytes of copied tensors in traces that are not written
)

// Tracer samples requests and writes their traces. Its methods are safe for concurrent use. A nil Tracer traces
// nothing.
type Tracer struct {
	start Settings
	tel   Telemetry
	log   *slog.Logger
	on    atomic.Bool
	table atomic.Pointer[table]
	ids   atomic.Uint64
	bytes atomic.Int64  // copied tensors in memory
	lost  atomic.Uint64 // traces and tensors that were dropped, until that is logged

	mu sync.Mutex // one change of the settings at a time

	queue  chan item
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	writer writer
}

// item is a trace to be written, or a setting that has been replaced.
type item struct {
	trace *Trace
	gone  *setting
}

// New checks the options and starts the goroutine that writes. As in Triton, settings that cannot trace, such as a
// level without a file, are not an error: see Fault. The caller closes the tracer.
func New(o Options) (*Tracer, error) {
	if m := o.Settings.Mode; m != ModeTriton && m != ModeOpenTelemetry {
		return nil, fmt.Errorf("trace mode %q is neither triton nor opentelemetry", m)
	}
	if o.Settings.Count < -1 {
		return nil, fmt.Errorf("trace count %d is below -1, which means no limit", o.Settings.Count)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t := &Tracer{
		start: o.Settings, tel: o.Telemetry, log: o.Log,
		queue: make(chan item, queueLength), stop: make(chan struct{}), done: make(chan struct{}),
	}
	t.writer = writer{log: o.Log, file: o.Settings.File, groups: map[*setting]*array{}}
	if o.Settings.Mode == ModeOpenTelemetry {
		x, err := newExporter(&t.tel, o.Log)
		if err != nil {
			return nil, err
		}
		t.writer.export = x
	}
	first := &table{server: newSetting(o.Settings)}
	t.table.Store(first)
	t.on.Store(first.on())
	go t.run()
	return t, nil
}

// On reports whether any request may be traced. Callers check it before they prepare a call of Sample.
func (t *Tracer) On() bool { return t != nil && t.on.Load() }

// Fault returns why the server's settings trace nothing although their level is not OFF, "" otherwise.
func (t *Tracer) Fault() string {
	if s := t.table.Load().server; s.Level != 0 {
		return s.fault()
	}
	return ""
}

// LostSpans returns the counts since the start. ok is false unless traces go to an OpenTelemetry collector.
func (t *Tracer) LostSpans() (lost LostSpans, ok bool) {
	if t == nil || t.writer.export == nil {
		return lost, false
	}
	q := t.writer.export.queue
	return LostSpans{QueueFull: q.full.Load(), NotSent: q.notSent.Load()}, true
}

// Settings returns the current settings of a model, or with "" of the server.
func (t *Tracer) Settings(model string) Settings { return t.table.Load().of(model).now() }

// Update changes the settings of a model, or with "" of the server. Fields that a model does not set follow the
// server's. Errors: InvalidArg, with Triton's text; then nothing has changed.
func (t *Tracer) Update(model string, u Update) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	next, gone, err := t.table.Load().with(model, u, t.start)
	if err != nil {
		return err
	}
	t.table.Store(next)
	t.on.Store(next.on())
	for _, s := range gone {
		select {
		case t.queue <- item{gone: s}:
		case <-t.done:
		}
	}
	return nil
}

// Parent is the W3C trace context of a request: the values of its traceparent and tracestate headers.
type Parent struct{ TraceParent, TraceState string }

// Sample decides whether a request to a model is traced, and returns nil if not. The caller puts the trace into the
// request, adds its marks, and calls End when it has finished with the request.
func (t *Tracer) Sample(model string, p Parent) *Trace {
	if !t.On() {
		return nil
	}
	s := t.table.Load().of(model)
	if !p.valid() {
		p = Parent{}
	}
	if !s.sample(p.TraceParent != "") {
		return nil
	}
	tr := &Trace{tracer: t, setting: s, id: t.ids.Add(1), model: model, version: infer.LatestVersion, context: p}
	if s.Mode == ModeOpenTelemetry {
		tr.spans = newSpans(p)
	}
	tr.root = tr
	tr.users.Store(1)
	return tr
}

// submit queues a finished trace for the writer.
func (t *Tracer) submit(tr *Trace) {
	select {
	case t.queue <- item{trace: tr}:
	default:
		t.lost.Add(1)
		t.forget(tr)
	}
}

func (t *Tracer) forget(tr *Trace) {
	n := tr.copied
	for _, c := range tr.children {
		n += c.copied
	}
	t.bytes.Add(-n)
}

// run writes until Close, and then the traces that are left.
func (t *Tracer) run() {
	defer close(t.done)
	for {
		select {
		case it := <-t.queue:
			t.write(it)
			continue
		default:
		}
		t.writer.flush()
		if n := t.lost.Swap(0); n > 0 {
			t.log.Warn("traces were dropped: they came faster than they could be written; raise the trace rate",
				"dropped", n)
		}
		select {
		case it := <-t.queue:
			t.write(it)
		case <-t.stop:
			if len(t.queue) == 0 {
				return
			}
		}
	}
}

func (t *Tracer) write(it item) {
	if it.gone != nil {
		t.writer.retire(it.gone)
		return
	}
	t.writer.add(it.trace)
	t.forget(it.trace)
}

// Close stops tracing, writes the finished traces and closes the files. It gives up when ctx ends. The traced requests
// should have ended before.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.on.Store(false)
	t.once.Do(func() { close(t.stop) })
	select {
	case <-t.done:
	case <-ctx.Done():
		if t.ids.Load() == 0 { // nothing was traced
			return nil
		}
		return fmt.Errorf("traces are still being written: %w", ctx.Err())
	}
	return t.writer.close(ctx)
}
