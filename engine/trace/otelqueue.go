package trace

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// LostSpans are the spans that did not reach the OpenTelemetry collector.
type LostSpans struct {
	QueueFull uint64 // the collector was slower than the requests
	NotSent   uint64 // the collector could not be reached, or refused them
}

// reportInterval is the shortest time between two log lines about a full queue.
const reportInterval = time.Minute

// spanQueue bounds the spans that wait for the collector, and counts those that it drops. The SDK's own bound does not
// report them.
type spanQueue struct {
	sdk.SpanProcessor
	log  *slog.Logger
	most int64

	waiting       atomic.Int64
	full, notSent atomic.Uint64 // see LostSpans

	reported     time.Time // when report was called last; only for the tracer's goroutine, as is the next
	reportedFull uint64    // full at that time
}

// OnEnd queues a span, or drops it if the queue is full.
func (q *spanQueue) OnEnd(s sdk.ReadOnlySpan) {
	if q.waiting.Add(1) <= q.most {
		q.SpanProcessor.OnEnd(s)
		return
	}
	q.waiting.Add(-1)
	q.full.Add(1)
	if now := time.Now(); now.Sub(q.reported) >= reportInterval {
		q.reported = now
		q.report()
	}
}

// report logs how many spans were dropped since the last report.
func (q *spanQueue) report() {
	if n := q.full.Load(); n > q.reportedFull {
		q.log.Warn("spans were dropped: requests are traced faster than the OpenTelemetry collector takes them; "+
			"raise --trace-config=rate=<n>, or opentelemetry,bsp_max_queue_size",
			"dropped", n-q.reportedFull, "queue", q.most)
		q.reportedFull = n
	}
}

// lossLogger logs when the export of spans begins to fail, and when it succeeds again. The SDK would call a global
// handler.
type lossLogger struct {
	sdk.SpanExporter
	log    *slog.Logger
	queue  *spanQueue
	failed bool // only the goroutine of the batch processor uses it
}

// ExportSpans sends spans. Those that cannot be sent are lost.
func (l *lossLogger) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
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
