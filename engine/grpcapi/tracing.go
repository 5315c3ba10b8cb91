package grpcapi

import (
	"context"

	"google.golang.org/grpc/metadata"

	"nereid/engine/infer"
	"nereid/engine/trace"
)

// traceStart returns the time at which the server begins to wait for a message, 0 if nothing is traced.
func (s *Server) traceStart() infer.Stamp {
	if !s.trace.On() {
		return 0
	}
	return infer.Now()
}

// sample decides whether a received request is traced. It returns nil if not. start is from traceStart.
func (s *Server) sample(ctx context.Context, r *infer.Request, start infer.Stamp) *trace.Trace {
	if start == 0 {
		return nil
	}
	first := func(name string) string {
		if v := metadata.ValueFromIncomingContext(ctx, name); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	tr := s.trace.Sample(r.ModelName, trace.Parent{TraceParent: first("traceparent"), TraceState: first("tracestate")})
	if tr == nil {
		return nil
	}
	r.Times.Arrived = infer.Now()
	tr.Asked(r.Version, r.ID)
	tr.Mark(trace.GRPCWaitReadStart, start)
	tr.Mark(trace.GRPCWaitReadEnd, r.Times.Arrived)
	r.Trace = tr
	return tr
}

// sending and sent mark the time before and after a message is sent to the client. tr may be nil.
func sending(tr *trace.Trace) {
	if tr != nil {
		tr.Mark(trace.GRPCSendStart, infer.Now())
	}
}

func sent(tr *trace.Trace) {
	if tr != nil {
		tr.Mark(trace.GRPCSendEnd, infer.Now())
	}
}
