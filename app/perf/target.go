package perf

import (
	"context"
	"net/http/httptrace"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"nereid/engine/client"
)

// Unary is a Target that makes a call for each request, over HTTP or gRPC.
type Unary struct{ c client.Client }

// NewUnary returns a target that sends through a client, which Close closes. The times of sending and receiving are
// measured over HTTP, and over gRPC if the client was made with GRPCTimes.
func NewUnary(c client.Client) *Unary { return &Unary{c} }

var _ Target = (*Unary)(nil)

// Close closes the client.
func (u *Unary) Close() error { return u.c.Close() }

// Infer implements Target.
func (u *Unary) Infer(ctx context.Context, _ int, r *Request, c *Call) error {
	var t times
	if _, ok := u.c.(*client.HTTP); ok {
		ctx = httptrace.WithClientTrace(ctx, t.trace())
	} else {
		ctx = context.WithValue(ctx, timesKey{}, &t)
	}
	answer, err := u.c.Infer(ctx, &r.Request)
	c.First = time.Now()
	c.End = c.First
	if err != nil {
		return err
	}
	c.Responses = 1
	c.Last = answer
	if c.Keep {
		c.Answers = []Answer{{At: c.First, Response: answer}}
	}
	if !t.sent.IsZero() {
		c.Send = t.sent.Sub(c.Start)
	}
	if !t.received.IsZero() {
		c.Receive = c.First.Sub(t.received)
	}
	return nil
}

// times says when the request of a call was written, and when its response began to arrive.
type times struct{ sent, received time.Time }

// trace fills in the times of an HTTP call. Its functions run before the call returns, one after the other.
func (t *times) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { t.sent = time.Now() },
		GotFirstResponseByte: func() { t.received = time.Now() },
	}
}

type timesKey struct{}

// GRPCTimes is the dial option with which a client of NewUnary measures the times of its calls.
func GRPCTimes() grpc.DialOption { return grpc.WithStatsHandler(grpcTimes{}) }

// grpcTimes fills in the times of gRPC calls: sending ends when the message has been encoded and queued, receiving
// begins when its bytes have arrived.
type grpcTimes struct{}

func (grpcTimes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (grpcTimes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (grpcTimes) HandleConn(context.Context, stats.ConnStats) {}

func (grpcTimes) HandleRPC(ctx context.Context, s stats.RPCStats) {
	t, ok := ctx.Value(timesKey{}).(*times)
	if !ok {
		return
	}
	switch s := s.(type) {
	case *stats.OutPayload:
		t.sent = s.SentTime
	case *stats.InPayload:
		t.received = s.RecvTime
	}
}
