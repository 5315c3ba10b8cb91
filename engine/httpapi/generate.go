package httpapi

import (
	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/infer"
	"nereid/engine/status"
)

// errManyResponses is the answer of generate to a model with no response or several. Triton sends it with status 200,
// and clients take it for a result.
func errManyResponses() error {
	return status.New(status.InvalidArg, "generate expects model to produce exactly 1 response, "+
		"use generate stream for model that generates various number of responses")
}

// generate handles POST /v2/models/{model}[/versions/{version}]/generate.
func generate(s *Server, x *exchange) error {
	r, err := s.readGenerate(x)
	if err != nil {
		return err
	}
	defer r.Release()
	resp, err := s.onlyResponse(x, r)
	if err != nil {
		return err
	}
	defer resp.Release()
	if resp.Err != nil {
		return resp.Err
	}
	w := &x.out
	w.Start(&s.pool, replySize)
	if err := tensorjson.AppendGenerated(w, r, resp); err != nil {
		w.Drop()
		return err
	}
	x.status, x.contentType, x.reply = 200, typeJSON, w.Finish()
	return nil
}

// generateStream handles POST /v2/models/{model}[/versions/{version}]/generate_stream.
func generateStream(s *Server, x *exchange) error {
	r, err := s.readGenerate(x)
	if err != nil {
		return err
	}
	return s.startStream(x, r, tensorjson.AppendGenerated)
}

// readGenerate reads a generate request and starts it. The caller must release it.
func (s *Server) readGenerate(x *exchange) (*infer.Request, error) {
	model, version, err := s.target(x)
	if err != nil {
		return nil, err
	}
	cfg, err := s.opt.Engine.ModelConfig(model, version)
	if err != nil {
		s.discardBody(x)
		return nil, err
	}
	r := s.newRequest(x, model, version)
	buf, body, err := s.readBody(x, 0)
	if err == nil {
		r.Own(buf)
		x.parser.Pool = &s.pool
		err = x.parser.Generate(r, cfg, body)
	}
	if err == nil {
		err = s.admit(x, r)
	}
	if err != nil {
		r.Release()
		return nil, err
	}
	s.reportLoad(x)
	return r, nil
}

// onlyResponse waits for the response of a model that must give exactly one. The caller must release it.
func (s *Server) onlyResponse(x *exchange, r *infer.Request) (only *infer.Response, err error) {
	for final := false; !final; {
		var resp *infer.Response
		if resp, err = s.next(x, r); err != nil {
			break
		}
		final = resp.Final
		if isEnd(r, resp, only != nil) {
			resp.Release()
			continue
		}
		if only != nil {
			resp.Release()
			r.Cancel()
			err = errManyResponses()
			break
		}
		only = resp
	}
	if err == nil && only == nil {
		err = errManyResponses()
	}
	if err != nil && only != nil {
		only.Release()
	}
	return only, err
}

// isEnd reports whether a response only says that no more follow. Models that are not decoupled may send such a
// response after their own; started reports whether there was one.
func isEnd(r *infer.Request, resp *infer.Response, started bool) bool {
	return resp.Empty && (started || r.Served.Decoupled())
}
