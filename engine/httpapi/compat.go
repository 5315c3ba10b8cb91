package httpapi

import "nereid/engine/httpapi/compat"

// The handlers of the other protocols' routes. What they answer is in package compat.

func v1Models(s *Server, x *exchange) error {
	x.json(compat.Models(s.opt.Engine.RepositoryIndex(false)))
	return nil
}

func v1Model(s *Server, x *exchange) error {
	name, _, err := s.target(x)
	if err != nil {
		return err
	}
	body, err := compat.Model(name, string(x.route.version), s.opt.Engine.RepositoryIndex(false))
	if err == nil {
		x.json(body)
	}
	return err
}

// v1Predict handles POST /v1/models/{model}[/versions/{version}]:predict.
func v1Predict(s *Server, x *exchange) error {
	model, version, err := s.target(x)
	if err != nil {
		return err
	}
	cfg, err := s.opt.Engine.ModelConfig(model, version)
	if err == nil && decoupled(cfg) {
		err = errDecoupled()
	}
	if err != nil {
		s.discardBody(x)
		return err
	}
	r := s.newRequest(x, model, version)
	defer r.Release()
	buf, body, err := s.readBody(x, 0)
	if err != nil {
		return err
	}
	r.Own(buf)
	rows, err := compat.ParsePredict(r, cfg, body)
	if err == nil {
		err = s.admit(x, r)
	}
	if err != nil {
		return err
	}
	resp, err := s.next(x, r)
	if err != nil {
		return err
	}
	defer resp.Release()
	if resp.Err != nil {
		return resp.Err
	}
	w := &x.out
	w.Start(&s.pool, replySize)
	if err := compat.AppendPredictions(w, resp, rows); err != nil {
		w.Drop()
		return err
	}
	x.status, x.contentType, x.reply = 200, typeJSON, w.Finish()
	s.compress(x)
	return nil
}

func (x *exchange) answer(r compat.Reply) error {
	x.empty(r.Status, r.ContentType)
	if r.Body != nil {
		x.bytes(r.Status, r.ContentType, r.Body)
	}
	return nil
}

func archiveList(s *Server, x *exchange) error { return x.answer(s.opt.SageMaker.List()) }

func archiveGet(s *Server, x *exchange) error {
	return x.answer(s.opt.SageMaker.Get(string(x.route.name)))
}

func archiveLoad(s *Server, x *exchange) error {
	return s.withBody(x, func(body []byte) error { return x.answer(s.opt.SageMaker.Load(s.lifetime(), body)) })
}

func archiveUnload(s *Server, x *exchange) error {
	return x.answer(s.opt.SageMaker.Unload(s.lifetime(), string(x.route.name)))
}

// archiveInvoke is infer for a loaded archive.
func archiveInvoke(s *Server, x *exchange) error {
	if _, ok := s.opt.SageMaker.Find(string(x.route.name)); !ok {
		return emptyReply(404)(s, x)
	}
	x.route.model, x.route.archive = x.route.name, true
	return inferRoute(s, x)
}

// metricsText answers a redirect of Vertex AI to the metrics.
func metricsText(s *Server, x *exchange) error {
	if s.opt.Metrics == nil {
		return emptyReply(400)(s, x)
	}
	x.bytes(200, typeText, s.opt.Metrics(nil))
	return nil
}
