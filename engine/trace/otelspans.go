package trace

import (
	"context"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	api "go.opentelemetry.io/otel/trace"

	"nereid/engine/infer"
)

// The names of the spans are Triton's. The span of a request has the name of its model.
const (
	rootSpan    = "InferRequest"
	computeSpan = "compute"
)

// valid reports whether p is a trace context that can be the parent of spans.
func (p Parent) valid() bool {
	return p.TraceParent != "" && api.SpanContextFromContext(p.into(context.Background())).IsValid()
}

// into returns ctx with the trace context of p.
func (p Parent) into(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{"traceparent": p.TraceParent, "tracestate": p.TraceState}
	return propagation.TraceContext{}.Extract(ctx, carrier)
}

// add makes the spans of a trace: one for the whole, one per request, and one for the computation of each request.
func (x *exporter) add(tr *Trace) {
	first, last := tr.interval()
	if first == 0 {
		return
	}
	x.ids.next = api.SpanContextConfig{TraceID: tr.spans.trace, SpanID: newSpanID()}
	ctx, root := x.tracer.Start(tr.context.into(context.Background()), rootSpan,
		api.WithTimestamp(first.Time()), api.WithSpanKind(api.SpanKindServer))
	defer root.End(api.WithTimestamp(last.Time()))
	if tr.setting.Level&Timestamps == 0 {
		return // as in Triton
	}
	for _, m := range tr.marks {
		if ofRoot(m.name) {
			root.AddEvent(m.name, api.WithTimestamp(m.at.Time()))
		}
	}
	contexts := map[*Trace]context.Context{tr: x.request(ctx, tr)}
	for _, c := range tr.children { // parents come before their children
		contexts[c] = x.request(contexts[c.parent], c)
	}
}

// ofRoot reports whether a mark is an event of the root span. As in Triton, the end of a response is one.
func ofRoot(name string) bool {
	return strings.HasPrefix(name, "HTTP_") || strings.HasPrefix(name, "GRPC_") || name == infer.ResponseComplete
}

// interval returns the first and the last time of a trace and its children.
func (tr *Trace) interval() (first, last infer.Stamp) {
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

// request makes the spans of one request, and returns the context for its children. A request that was refused has no
// spans.
func (x *exporter) request(ctx context.Context, tr *Trace) context.Context {
	start, end := tr.at(infer.RequestStart), tr.at(infer.RequestEnd)
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
	compute := []string{infer.ComputeStart, infer.ComputeInputEnd, infer.ComputeOutputStart, infer.ComputeEnd}
	for _, m := range tr.marks {
		if !m.custom && !ofRoot(m.name) && !slices.Contains(compute, m.name) {
			span.AddEvent(m.name, api.WithTimestamp(m.at.Time()))
		}
	}
	x.activities(ctx, span, tr)
	if begin := tr.at(infer.ComputeStart); begin != 0 {
		_, c := x.tracer.Start(ctx, computeSpan, api.WithTimestamp(begin.Time()))
		for _, name := range compute {
			if at := tr.at(name); at != 0 {
				c.AddEvent(name, api.WithTimestamp(at.Time()))
			}
		}
		c.End(api.WithTimestamp(tr.at(infer.ComputeEnd).Time()))
	}
	span.End(api.WithTimestamp(end.Time()))
	return ctx
}

// activities makes the spans that a backend recorded in a request: NAME_START opens the span NAME inside the one that
// is open, and any name that ends with _END closes the newest. A span that was not closed ends with the request.
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
		stack[i].span.End(api.WithTimestamp(tr.at(infer.RequestEnd).Time()))
	}
}
