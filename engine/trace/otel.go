package trace

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"nereid/engine/infer"
)

// Telemetry configures the export to an OpenTelemetry collector. Where a field is empty, the OTEL_ environment
// variables of the OpenTelemetry specification apply.
type Telemetry struct {
	// URL of the collector's OTLP/HTTP endpoint. Without a scheme it is http. "": http://localhost:4318/v1/traces
	URL      string
	Resource [][2]string // attributes of the sender. The default of service.name is triton-inference-server
	// The batch span processor's limits. 0: 2048 spans, 512 spans.
	MaxQueueSize       int
	MaxExportBatchSize int
	// ScheduleDelay is the longest wait between two exports. nil: 5 s. 0: spans are exported at once.
	ScheduleDelay *time.Duration
}

// list returns names and values, sorted by name, as the trace extension shows them.
func (t *Telemetry) list() [][2]string {
	or := func(v, def int) string {
		if v == 0 {
			v = def
		}
		return strconv.Itoa(v)
	}
	delay := strconv.Itoa(sdk.DefaultScheduleDelay)
	if t.ScheduleDelay != nil {
		delay = strconv.FormatInt(t.ScheduleDelay.Milliseconds(), 10)
	}
	all := [][2]string{
		{"bsp_max_export_batch_size", or(t.MaxExportBatchSize, sdk.DefaultMaxExportBatchSize)},
		{"bsp_max_queue_size", or(t.MaxQueueSize, sdk.DefaultMaxQueueSize)},
		{"bsp_schedule_delay", delay},
	}
	var pairs []string
	for _, r := range t.Resource {
		pairs = append(pairs, r[0]+"="+r[1])
	}
	if len(pairs) > 0 {
		all = append(all, [2]string{"resource", strings.Join(pairs, ",")})
	}
	if t.URL != "" {
		all = append(all, [2]string{"url", t.URL})
	}
	return all
}

// exporter makes spans from traces. Only the tracer's goroutine uses it.
type exporter struct {
	provider *sdk.TracerProvider
	tracer   api.Tracer
	queue    *spanQueue
	ids      *idGenerator
}

const defaultURL = "http://localhost:4318/v1/traces"

func newExporter(t Telemetry, log *slog.Logger) (*exporter, error) {
	var opts []otlptracehttp.Option
	switch {
	case t.URL != "":
		endpoint, err := t.endpoint()
		if err != nil {
			return nil, err
		}
		opts = append(opts, otlptracehttp.WithEndpointURL(endpoint))
	case os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		opts = append(opts, otlptracehttp.WithEndpointURL(defaultURL))
	}
	out, err := otlptracehttp.New(context.Background(), opts...)
	if err != nil {
		return nil, fmt.Errorf("OpenTelemetry exporter: %w", err)
	}
	res, err := t.resource()
	if err != nil {
		return nil, err
	}
	var batch []sdk.BatchSpanProcessorOption
	if t.MaxQueueSize > 0 {
		batch = append(batch, sdk.WithMaxQueueSize(t.MaxQueueSize))
	}
	if t.ScheduleDelay != nil {
		batch = append(batch, sdk.WithBatchTimeout(max(*t.ScheduleDelay, time.Millisecond))) // 0 would never sleep
	}
	if t.MaxExportBatchSize > 0 {
		batch = append(batch, sdk.WithMaxExportBatchSize(t.MaxExportBatchSize))
	}
	q := &spanQueue{log: log}
	batch = append(batch, func(o *sdk.BatchSpanProcessorOptions) { q.most = int64(o.MaxQueueSize) })
	q.SpanProcessor = sdk.NewBatchSpanProcessor(&logged{SpanExporter: out, log: log, queue: q}, batch...)
	ids := &idGenerator{}
	p := sdk.NewTracerProvider(sdk.WithResource(res), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithSpanProcessor(q),
		sdk.WithIDGenerator(ids))
	return &exporter{provider: p, tracer: p.Tracer("triton-server"), queue: q, ids: ids}, nil
}

// endpoint returns the URL with its scheme. The SDK would ignore one that it cannot read.
func (t *Telemetry) endpoint() (string, error) {
	text := t.URL
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("opentelemetry,url=%s is no address of a collector; "+
			"write --trace-config=opentelemetry,url=http://<host>:<port>/v1/traces", t.URL)
	}
	return text, nil
}

func (t *Telemetry) resource() (*resource.Resource, error) {
	attrs := []attribute.KeyValue{attribute.String("service.name", "triton-inference-server")}
	res, err := resource.New(context.Background(), resource.WithAttributes(attrs...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OpenTelemetry resource: %w", err)
	}
	attrs = nil
	for _, r := range t.Resource {
		attrs = append(attrs, attribute.String(r[0], r[1]))
	}
	return resource.Merge(res, resource.NewSchemaless(attrs...))
}

// LostSpans are the spans that did not reach the OpenTelemetry collector.
type LostSpans struct {
	QueueFull uint64 // the collector was slower than the requests
	NotSent   uint64 // the collector could not be reached, or refused them
}

// lostEvery is the shortest time between two log lines about a full queue.
const lostEvery = time.Minute

// spanQueue bounds the spans that wait for the collector. The SDK's own bound drops spans without a word.
type spanQueue struct {
	sdk.SpanProcessor
	log  *slog.Logger
	most int64

	waiting         atomic.Int64
	full, notSent   atomic.Uint64
	logged          time.Time // of the last line; this and the next are only for the tracer's goroutine
	loggedQueueFull uint64
}

// OnEnd queues a span, or drops it if the queue is full.
func (q *spanQueue) OnEnd(s sdk.ReadOnlySpan) {
	if q.waiting.Add(1) <= q.most {
		q.SpanProcessor.OnEnd(s)
		return
	}
	q.waiting.Add(-1)
	q.full.Add(1)
	if now := time.Now(); now.Sub(q.logged) >= lostEvery {
		q.logged = now
		q.report()
	}
}

// report logs how many spans were dropped since the last report.
func (q *spanQueue) report() {
	if n := q.full.Load(); n > q.loggedQueueFull {
		q.log.Warn("spans were dropped: requests are traced faster than the OpenTelemetry collector takes them; "+
			"raise --trace-config=rate=<n>, or opentelemetry,bsp_max_queue_size",
			"dropped", n-q.loggedQueueFull, "queue", q.most)
		q.loggedQueueFull = n
	}
}

// logged logs when the export of spans begins to fail, and when it succeeds again. The SDK would call a global handler.
type logged struct {
	sdk.SpanExporter
	log    *slog.Logger
	queue  *spanQueue
	failed bool // only the goroutine of the batch processor uses it
}

// ExportSpans sends spans. Those that cannot be sent are lost.
func (l *logged) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := l.SpanExporter.ExportSpans(ctx, spans)
	l.queue.waiting.Add(-int64(len(spans)))
	if err != nil {
		l.queue.notSent.Add(uint64(len(spans)))
	}
	if err != nil && !l.failed {
		l.log.Error("traces cannot be sent to the OpenTelemetry collector and are lost; "+
			"check --trace-config=opentelemetry,url=<endpoint>", "err", err)
	} else if err == nil && l.failed {
		l.log.Info("traces reach the OpenTelemetry collector again")
	}
	l.failed = err != nil
	return nil
}

// valid reports whether p is a trace context that can be the parent of spans.
func (p Parent) valid() bool {
	return p.TraceParent != "" && api.SpanContextFromContext(p.into(context.Background())).IsValid()
}

func (p Parent) into(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{"traceparent": p.TraceParent, "tracestate": p.TraceState}
	return propagation.TraceContext{}.Extract(ctx, carrier)
}

// add makes the spans of a trace: InferRequest for the whole, one with the model's name per request, and one for its
// computation.
func (x *exporter) add(tr *Trace) {
	first, last := tr.span()
	if first == 0 {
		return
	}
	x.ids.next = api.SpanContextConfig{TraceID: tr.spans.trace, SpanID: newSpanID()}
	ctx, root := x.tracer.Start(tr.context.into(context.Background()), "InferRequest",
		api.WithTimestamp(first.Time()), api.WithSpanKind(api.SpanKindServer))
	for _, m := range tr.marks {
		if ofRoot(m.name) {
			root.AddEvent(m.name, api.WithTimestamp(m.at.Time()))
		}
	}
	under := map[*Trace]context.Context{tr: x.request(ctx, tr)}
	for _, c := range tr.children { // parents come before their children
		under[c] = x.request(under[c.parent], c)
	}
	root.End(api.WithTimestamp(last.Time()))
}

// ofRoot reports whether a mark is an event of the root span. As in Triton, that of a response is.
func ofRoot(name string) bool {
	return strings.HasPrefix(name, "HTTP_") || strings.HasPrefix(name, "GRPC_") || name == responseComplete
}

// span returns the first and the last time of a trace and its children.
func (tr *Trace) span() (first, last infer.Stamp) {
	for _, t := range append([]*Trace{tr}, tr.children...) {
		for _, m := range t.marks {
			if first == 0 || m.at < first {
				first = m.at
			}
			last = max(last, m.at)
		}
	}
	return first, last
}

// request makes the spans of one admitted request, and returns the context for its children.
func (x *exporter) request(ctx context.Context, tr *Trace) context.Context {
	start, end := tr.at(requestStart), tr.at(requestEnd)
	if start == 0 {
		return ctx
	}
	parent := uint64(0)
	if tr.parent != nil {
		parent = tr.parent.id
	}
	attrs := []attribute.KeyValue{
		attribute.String("triton.model_name", tr.model), attribute.Int64("triton.model_version", tr.version),
		attribute.Int64("triton.trace_id", int64(tr.id)), attribute.Int64("triton.trace_parent_id", int64(parent)),
	}
	if tr.request != "" {
		attrs = append(attrs, attribute.String("triton.request_id", strings.ToValidUTF8(tr.request, "\uFFFD")))
	}
	x.ids.next.SpanID = tr.spans.request
	ctx, span := x.tracer.Start(ctx, tr.model, api.WithTimestamp(start.Time()), api.WithAttributes(attrs...))
	if tr.failed != "" {
		span.SetStatus(codes.Error, tr.failed)
	}
	compute := []string{computeStart, computeInputEnd, computeOutputStart, computeEnd}
	for _, m := range tr.marks {
		if !m.custom && !ofRoot(m.name) && !slices.Contains(compute, m.name) {
			span.AddEvent(m.name, api.WithTimestamp(m.at.Time()))
		}
	}
	x.activities(ctx, span, tr)
	if begin := tr.at(computeStart); begin != 0 {
		_, c := x.tracer.Start(ctx, "compute", api.WithTimestamp(begin.Time()))
		for _, name := range compute {
			if at := tr.at(name); at != 0 {
				c.AddEvent(name, api.WithTimestamp(at.Time()))
			}
		}
		c.End(api.WithTimestamp(tr.at(computeEnd).Time()))
	}
	span.End(api.WithTimestamp(end.Time()))
	return ctx
}

// activities makes the spans that a backend recorded in a request. One that was not closed ends with the request.
func (x *exporter) activities(ctx context.Context, span api.Span, tr *Trace) {
	type open struct {
		ctx  context.Context
		span api.Span
	}
	stack := []open{{ctx, span}}
	for _, m := range tr.marks {
		if !m.custom {
			continue
		}
		name, at := strings.ToValidUTF8(m.name, "\uFFFD"), api.WithTimestamp(m.at.Time())
		if of, ok := strings.CutSuffix(name, "_START"); ok && of != "" {
			inner, s := x.tracer.Start(stack[len(stack)-1].ctx, of, at)
			stack = append(stack, open{inner, s})
		}
		top := stack[len(stack)-1].span
		top.AddEvent(name, at)
		if of, ok := strings.CutSuffix(name, "_END"); ok && of != "" && len(stack) > 1 {
			top.End(at)
			stack = stack[:len(stack)-1]
		}
	}
	for i := len(stack) - 1; i > 0; i-- {
		stack[i].span.End(api.WithTimestamp(tr.at(requestEnd).Time()))
	}
}

// close sends what is pending.
func (x *exporter) close(ctx context.Context) error {
	x.queue.report()
	if err := x.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("the last traces may not have reached the OpenTelemetry collector: %w", err)
	}
	return nil
}
