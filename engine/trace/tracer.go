package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"nereid/engine/infer"
)

// Options say what is traced and where to.
type Options struct {
	// Settings of the start, which cleared settings go back to.
	Settings Settings
	// Telemetry is for ModeOpenTelemetry.
	Telemetry Telemetry
	Log       *slog.Logger // nil: none
}

const (
	// queueLength is how many finished traces may wait to be written, tensorBudget how many bytes of copied tensors the
	// traces may hold that are not written yet. What comes beyond is dropped and counted.
	queueLength  = 4096
	tensorBudget = 64 << 20
)

// Tracer samples requests and writes their traces. Its methods are safe for concurrent use; a nil Tracer traces nothing.
type Tracer struct {
	start Settings
	tel   Telemetry
	log   *slog.Logger
	on    atomic.Bool
	table atomic.Pointer[table]
	ids   atomic.Uint64
	bytes atomic.Int64 // copied tensors in memory
	lost  atomic.Uint64

	mu sync.Mutex // one change of the settings at a time

	queue  chan item
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	writer writer
}

// item is a trace to write, or a setting that is no longer in force.
type item struct {
	trace *Trace
	gone  *setting
}

// New checks the options and starts the writer. Settings that cannot trace anything, such as a level without a file, are no
// error, as in Triton; see Fault. The caller closes the tracer.
func New(o Options) (*Tracer, error) {
	var errs []error
	if o.Settings.Mode != ModeTriton && o.Settings.Mode != ModeOpenTelemetry {
		errs = append(errs, fmt.Errorf("trace mode %q is neither triton nor opentelemetry", o.Settings.Mode))
	}
	if o.Settings.Count < -1 {
		errs = append(errs, fmt.Errorf("trace count %d is below -1, which means no limit", o.Settings.Count))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
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
		x, err := newExporter(o.Telemetry, o.Log)
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

// On reports whether any request may be traced: what callers ask before they gather anything for Sample.
func (t *Tracer) On() bool { return t != nil && t.on.Load() }

// Fault says why the server's own settings trace nothing although their level is not OFF; "" if all is well.
func (t *Tracer) Fault() string {
	if s := t.table.Load().server; s.Level != 0 {
		return s.fault()
	}
	return ""
}

// Settings returns what is in force for a model, or with "" for the server.
func (t *Tracer) Settings(model string) Settings { return t.table.Load().of(model).now() }

// Telemetry returns the settings of ModeOpenTelemetry by name, as the trace extension shows them.
func (t *Tracer) Telemetry() [][2]string { return t.tel.list() }

// Update changes a model's settings, or with "" the server's. Fields that a model does not set follow the server's; a model
// that sets none has no setting of its own. Errors: InvalidArg, with Triton's words; then nothing has changed.
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

// Parent is the W3C trace context that a request brings: the values of its traceparent and tracestate headers.
type Parent struct{ TraceParent, TraceState string }

// Sample decides whether a request to a model is traced. nil: it is not. The caller puts the trace into the request, adds
// its own marks and calls End once it is done with the request.
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
	tr.root = tr
	tr.users.Store(1)
	return tr
}

// Lost returns how many traces or tensors were dropped because they came faster than they could be written.
func (t *Tracer) Lost() uint64 { return t.lost.Load() }

// submit hands a whole trace to the writer.
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

// run writes until Close, then what is left.
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
			t.log.Warn("traces were dropped: they came faster than they could be written; raise the trace rate", "dropped", n)
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

// Close traces no more, writes what has ended and lets go of the files, or gives up when ctx ends. The requests that are
// traced should have ended before.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.on.Store(false)
	t.once.Do(func() { close(t.stop) })
	select {
	case <-t.done:
	case <-ctx.Done():
		return fmt.Errorf("traces are still being written: %w", ctx.Err())
	}
	return t.writer.close(ctx)
}
