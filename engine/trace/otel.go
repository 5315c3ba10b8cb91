package trace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// Telemetry configures the export to an OpenTelemetry collector. The OTEL_ environment variables of the OpenTelemetry
// specification are the defaults of its fields.
type Telemetry struct {
	// URL of the collector's OTLP/HTTP endpoint. Without a scheme it is http. "": http://localhost:4318/v1/traces
	URL      string
	Resource [][2]string // attributes of this server. The default of service.name is triton-inference-server
	// The batch span processor's limits. 0: 2048 spans, 512 spans.
	MaxQueueSize       int
	MaxExportBatchSize int
	// ScheduleDelay is the longest wait between two exports. nil: 5 s. 0: spans are exported at once.
	ScheduleDelay *time.Duration
}

// complete fills in the limits that are not set with those that the SDK uses.
func (t *Telemetry) complete(o *sdk.BatchSpanProcessorOptions) {
	t.MaxQueueSize = cmp.Or(t.MaxQueueSize, o.MaxQueueSize)
	t.MaxExportBatchSize = cmp.Or(t.MaxExportBatchSize, o.MaxExportBatchSize)
	if t.ScheduleDelay == nil {
		t.ScheduleDelay = &o.BatchTimeout
	}
}

// list returns names and values, sorted by name, as the trace extension shows them. t is complete.
func (t *Telemetry) list() [][2]string {
	all := [][2]string{
		{"bsp_max_export_batch_size", strconv.Itoa(t.MaxExportBatchSize)},
		{"bsp_max_queue_size", strconv.Itoa(t.MaxQueueSize)},
		{"bsp_schedule_delay", strconv.FormatInt(t.ScheduleDelay.Milliseconds(), 10)},
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

// exporter sends traces to the collector; otelspans.go has the spans. Only the tracer's goroutine uses it.
type exporter struct {
	provider *sdk.TracerProvider
	tracer   api.Tracer
	queue    *spanQueue
	ids      *idGenerator
}

const defaultURL = "http://localhost:4318/v1/traces"

// newExporter makes an exporter, and completes t.
func newExporter(t *Telemetry, log *slog.Logger) (*exporter, error) {
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
		batch = append(batch, sdk.WithBatchTimeout(max(*t.ScheduleDelay, time.Millisecond))) // 0: no pause
	}
	if t.MaxExportBatchSize > 0 {
		batch = append(batch, sdk.WithMaxExportBatchSize(t.MaxExportBatchSize))
	}
	q := &spanQueue{log: log}
	batch = append(batch, func(o *sdk.BatchSpanProcessorOptions) {
		q.most = int64(o.MaxQueueSize)
		t.complete(o)
	})
	q.SpanProcessor = sdk.NewBatchSpanProcessor(&lossLogger{SpanExporter: out, log: log, queue: q}, batch...)
	ids := &idGenerator{}
	p := sdk.NewTracerProvider(sdk.WithResource(res), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithSpanProcessor(q),
		sdk.WithIDGenerator(ids), sdk.WithRawSpanLimits(spanLimits()))
	return &exporter{provider: p, tracer: p.Tracer("triton-server"), queue: q, ids: ids}, nil
}

// spanLimits are those of the SDK, but for the number of events: a request may have any number of responses, and each
// is an event. The SDK would drop the first events.
func spanLimits() sdk.SpanLimits {
	l := sdk.NewSpanLimits()
	if os.Getenv("OTEL_SPAN_EVENT_COUNT_LIMIT") == "" {
		l.EventCountLimit = -1
	}
	return l
}

// endpoint returns the URL with its scheme. The SDK would ignore one that it cannot read.
func (t *Telemetry) endpoint() (string, error) {
	text := t.URL
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("opentelemetry,url=%s is not the address of a collector; "+
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

// close sends the pending spans.
func (x *exporter) close(ctx context.Context) error {
	x.queue.report()
	if err := x.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("the last traces may not have reached the OpenTelemetry collector: %w", err)
	}
	return nil
}
