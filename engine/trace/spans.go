package trace

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"nereid/engine/infer"
)

// spans are the ids of a request's spans. They are chosen before the spans are made, because models pass them on.
type spans struct {
	trace   api.TraceID
	state   string     // the client's tracestate
	request api.SpanID // of the span with the model's name
}

// newSpans returns the ids for a request with a client's context, or without one.
func newSpans(p Parent) *spans {
	s := &spans{trace: api.SpanContextFromContext(p.into(context.Background())).TraceID(), request: newSpanID()}
	if s.trace.IsValid() {
		s.state = p.TraceState
		return s
	}
	s.trace = newTraceID()
	return s
}

// child returns the ids for a request that this request's execution makes.
func (s *spans) child() *spans {
	if s == nil {
		return nil
	}
	return &spans{trace: s.trace, state: s.state, request: newSpanID()}
}

var _ infer.PropagatedTrace = (*Trace)(nil)

// Propagate implements infer.PropagatedTrace. As in Triton, the parent is the span of the request to the model.
func (tr *Trace) Propagate() string {
	s := tr.spans
	if s == nil {
		return ""
	}
	text, err := json.Marshal(struct {
		Parent string `json:"traceparent"`
		State  string `json:"tracestate,omitempty"`
	}{"00-" + s.trace.String() + "-" + s.request.String() + "-01", s.state})
	if err != nil {
		return ""
	}
	return string(text)
}

// idGenerator gives spans the ids that were chosen for them, and others random ones. Only the tracer's goroutine uses
// it.
type idGenerator struct {
	next api.SpanContextConfig // the ids of the next span; zero: random ones
}

var _ sdk.IDGenerator = (*idGenerator)(nil)

// NewIDs implements sdk.IDGenerator.
func (g *idGenerator) NewIDs(ctx context.Context) (api.TraceID, api.SpanID) {
	trace := g.next.TraceID
	if !trace.IsValid() {
		trace = newTraceID()
	}
	return trace, g.NewSpanID(ctx, trace)
}

// NewSpanID implements sdk.IDGenerator.
func (g *idGenerator) NewSpanID(context.Context, api.TraceID) api.SpanID {
	id := g.next.SpanID
	g.next = api.SpanContextConfig{}
	if !id.IsValid() {
		id = newSpanID()
	}
	return id
}

func newTraceID() (id api.TraceID) {
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64()|1)
	return id
}

func newSpanID() (id api.SpanID) {
	binary.LittleEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
