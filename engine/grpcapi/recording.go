package grpcapi

import (
	"context"
	"net"

	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/infer"
	"nereid/engine/refusals"
	"nereid/engine/requests"
)

// record begins the record of a request whose message came at a moment; nil if nothing is recorded.
func (s *Server) record(ctx context.Context, came infer.Stamp) *requests.Active {
	if s.requests == nil {
		return nil
	}
	return s.requests.Begin(requests.GRPC, clientOf(ctx), came)
}

func clientOf(ctx context.Context) net.Addr {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr
	}
	return &net.TCPAddr{}
}

// answered notes how a recorded request is answered: with the status of err.
func answered(a *requests.Active, err error) {
	if a == nil {
		return
	}
	st := grpcstatus.Convert(err)
	a.Answer(int(st.Code()), refusals.GRPCCause(st), st.Message())
}

// recordRefusal records a call that was refused as a whole. The requests of a stream have records of their own; one of
// them may have ended the call.
func (s *Server) recordRefusal(method string, client net.Addr, st *grpcstatus.Status) {
	cause := refusals.GRPCCause(st)
	switch {
	case cause == "":
	case method == streamMethod && cause != "unauthenticated" && cause != "forbidden" && cause != "too_large":
	default:
		s.requests.Add(requests.GRPC, client, method, int(st.Code()), cause, st.Message())
	}
}
