package perf

import (
	"context"
	"net/http/httptrace"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"nereid/engine/client"
)

// Unary is a Target of single calls, over HTTP or gRPC.
type Unary struct{ c client.Client }

// NewUnary sends by a client, which Close closes. A gRPC client must have been made with GRPCTimes for times of sending
// and receiving.
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
	if !t.came.IsZero() {
		c.Receive = c.First.Sub(t.came)
	}
	return nil
}

// times is when a call's request was written and when its answer began to come.
type times struct{ sent, came time.Time }

// trace fills in the times of an HTTP call. The hooks run before the call returns, one after the other.
func (t *times) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { t.sent = time.Now() },
		GotFirstResponseByte: func() { t.came = time.Now() },
	}
}

type timesKey struct{}

// GRPCTimes is a dial option for a client whose calls NewUnary times.
func GRPCTimes() grpc.DialOption { return grpc.WithStatsHandler(grpcTimes{}) }

// grpcTimes fills in the times of gRPC calls: sending ends when the message has been encoded and handed over, receiving
// begins when its bytes have come.
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
		t.came = s.RecvTime
	}
}
