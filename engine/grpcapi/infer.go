package grpcapi

import (
	"context"

	"google.golang.org/grpc"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/classification"
	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/trace"
)

// modelInfer answers ModelInfer.
func (s *Server) modelInfer(ctx context.Context, stream grpc.ServerStream) error {
	start := s.traceStart()
	m := getMessage(&s.pool, s.regions)
	err := stream.RecvMsg(m)
	r, refused, came := m.r, m.err, m.came
	putMessage(m)
	if err != nil {
		if r != nil {
			r.Release()
		}
		return err
	}
	a := s.record(ctx, came)
	defer a.Sent()
	if refused != nil {
		answered(a, wireError(refused))
		return wireError(refused)
	}
	defer r.Release()
	a.Attach(r)
	err = s.unary(ctx, stream, r, start)
	if ctx.Err() != nil {
		a.Left()
	} else {
		answered(a, err)
	}
	return err
}

// unary answers a decoded request of modelInfer.
func (s *Server) unary(ctx context.Context, stream grpc.ServerStream, r *infer.Request, start infer.Stamp) error {
	tr, err := s.admit(ctx, r, start)
	defer tr.End()
	if err != nil {
		return err
	}
	resp, err := singleResponse(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Release()
	a, err := s.answerOf(r, resp)
	if err != nil {
		return err
	}
	s.compressAnswers(ctx)
	sending(tr)
	err = stream.SendMsg(a.encode())
	sent(tr)
	return err
}

// answerOf makes the answer of ModelInfer from a final response: a message, or a status for the client.
func (s *Server) answerOf(r *infer.Request, resp *infer.Response) (answer, error) {
	if resp.Err != nil {
		return answer{}, wireError(resp.Err)
	}
	if len(r.Outputs) > 0 {
		if err := shape(r, resp); err != nil {
			return answer{}, wireError(err)
		}
	}
	return answer{
		model: r.Served.Name(), version: r.Served.VersionText(), id: r.ID, resp: resp, memory: s.pool.Budget,
	}, nil
}

// admit passes a decoded request to the engine. An error is the status for the client, and the request's responses are
// not needed. The caller must end the trace in both cases; it is nil unless the request is traced. start is from
// traceStart.
func (s *Server) admit(ctx context.Context, r *infer.Request, start infer.Stamp) (*trace.Trace, error) {
	if s.decoupled(r) {
		return nil, errDecoupled()
	}
	if err := s.forward(ctx, r); err != nil {
		return nil, wireError(err)
	}
	tr := s.sample(ctx, r, start)
	if err := s.engine.Infer(ctx, r); err != nil {
		return tr, wireError(err)
	}
	if r.Served.Decoupled() { // the model was reloaded meanwhile
		r.Cancel()
		return tr, errDecoupled()
	}
	return tr, nil
}

func errDecoupled() error {
	return unimplemented("ModelInfer RPC doesn't support models with decoupled transaction policy")
}

// decoupled reports whether r, which the engine has not admitted, is to a decoupled model. For an unknown model it is
// false.
func (s *Server) decoupled(r *infer.Request) bool { return s.decoupledModel(r.ModelName, r.Version) }

func (s *Server) decoupledModel(name string, version int64) bool {
	config, err := s.engine.ModelConfig(name, version)
	return err == nil && config.GetModelTransactionPolicy().GetDecoupled()
}

// singleResponse waits for the response of a request to a model that is not decoupled. A backend may send the outputs
// first, and an empty final response after them. The caller releases the response.
func singleResponse(ctx context.Context, r *infer.Request) (*infer.Response, error) {
	var held *infer.Response
	for {
		resp, err := next(ctx, r)
		if err != nil {
			if held != nil {
				held.Release()
			}
			return nil, err
		}
		final := resp.Final
		if held = keep(held, resp); final {
			return held, nil
		}
	}
}

// keep returns the one of two responses to a request that answers it, and releases the other: the later one, unless it
// is empty. held may be nil.
func keep(held, resp *infer.Response) *infer.Response {
	switch {
	case held == nil:
		return resp
	case !resp.Empty:
		held.Release()
		return resp
	}
	resp.Release()
	return held
}

// next waits for a response. If the call ends first, it cancels the request.
func next(ctx context.Context, r *infer.Request) (*infer.Response, error) {
	resp, err := r.Next(ctx)
	if err != nil {
		r.Cancel()
		return nil, grpcstatus.FromContextError(err).Err()
	}
	return resp, nil
}

// shape turns outputs into classes, or moves them to shared memory, as the request demands.
func shape(r *infer.Request, resp *infer.Response) error {
	if err := classification.Apply(r, resp); err != nil {
		return err
	}
	return shm.Store(r, resp)
}
