package grpcapi

import (
	"context"

	"google.golang.org/grpc"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/classification"
	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/trace"
)

// modelInfer answers ModelInfer.
func (s *Server) modelInfer(ctx context.Context, stream grpc.ServerStream) error {
	start := s.traceStart()
	m := getMessage(&s.pool, s.regions)
	err := stream.RecvMsg(m)
	r, refused := m.r, m.err
	putMessage(m)
	if err != nil {
		if r != nil {
			r.Release()
		}
		return err
	}
	if refused != nil {
		return wireError(refused)
	}
	defer r.Release()
	tr, err := s.admit(ctx, r, start)
	defer tr.End()
	if err != nil {
		return err
	}
	resp, err := only(ctx, r)
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
	err = stream.SendMsg(&reply{bufs: a.encode()})
	sent(tr)
	return err
}

// answerOf makes of a final response what ModelInfer answers: a message, or an error for the wire.
func (s *Server) answerOf(r *infer.Request, resp *infer.Response) (answer, error) {
	if resp.Err != nil {
		return answer{}, wireError(resp.Err)
	}
	if len(r.Outputs) > 0 {
		if err := s.shape(r, resp); err != nil {
			return answer{}, wireError(err)
		}
	}
	return answer{model: r.Served.Name(), version: r.Served.VersionText(), id: r.ID, resp: resp}, nil
}

// admit hands a decoded request to the engine. Its errors are for the wire; no response of the request is wanted then.
// The trace, nil for nearly all, is the caller's to end in both cases. start is from traceStart.
func (s *Server) admit(ctx context.Context, r *infer.Request, start infer.Stamp) (*trace.Trace, error) {
	if err := s.forward(ctx, r); err != nil {
		return nil, wireError(err)
	}
	tr := s.sample(ctx, r, start)
	if err := s.engine.Infer(ctx, r); err != nil {
		return tr, wireError(err)
	}
	if r.Served.Decoupled() {
		r.Cancel()
		return tr, unimplemented("ModelInfer RPC doesn't support models with decoupled transaction policy")
	}
	return tr, nil
}

// only waits for the one response of a request to a model that is not decoupled. A backend may send its outputs first
// and the end of the request after them. The caller releases the response.
func only(ctx context.Context, r *infer.Request) (*infer.Response, error) {
	resp, err := next(ctx, r)
	if err != nil || resp.Final {
		return resp, err
	}
	for {
		more, err := next(ctx, r)
		if err != nil {
			resp.Release()
			return nil, err
		}
		if more.Err != nil || len(more.Outputs) > 0 {
			resp.Release()
			resp = more
		} else {
			more.Release()
		}
		if more.Final {
			return resp, nil
		}
	}
}

// next waits for a response. When the call ends first, it cancels the request.
func next(ctx context.Context, r *infer.Request) (*infer.Response, error) {
	resp, err := r.Next(ctx)
	if err != nil {
		r.Cancel()
		return nil, grpcstatus.FromContextError(err).Err()
	}
	return resp, nil
}

// shape makes of the outputs what the caller wants: classes, or bytes in shared memory.
func (s *Server) shape(r *infer.Request, resp *infer.Response) error {
	if err := s.classify(r, resp); err != nil {
		return err
	}
	return shm.Store(r, resp)
}

// classify replaces the outputs that the caller wants as classes.
func (s *Server) classify(r *infer.Request, resp *infer.Response) error {
	if !classification.Wanted(r) {
		return nil
	}
	config, err := s.engine.ModelConfig(r.Served.Name(), r.Served.Version())
	if err != nil {
		return status.Errorf(status.CodeOf(err), "classification: %w", err)
	}
	return classification.Apply(r, resp, config.GetMaxBatchSize() > 0)
}
