package app

import (
	"nereid/app/sagemaker"
	"nereid/engine/httpapi"
	"nereid/engine/status"
)

// openCloud makes the servers of SageMaker and Vertex AI.
func (s *server) openCloud() (err error) {
	f := s.fronts
	f.cloud = map[string]*httpapi.Server{}
	if f.c.Listen.SageMaker.On {
		o := f.c.SageMaker.SageMaker
		if s.repos.archives != "" {
			o.Archives = sagemaker.NewArchives(s.engine, sagemaker.Root, s.repos.archives)
		}
		if f.cloud["sagemaker"], err = f.newHTTP(httpapi.Options{SageMaker: &o, Trace: s.trace}); err != nil {
			return err
		}
	}
	if f.c.Listen.VertexAI.On {
		o := f.c.VertexAI.VertexAI
		o.Model = f.vertexAIModel
		if f.cloud["vertex-ai"], err = f.newHTTP(httpapi.Options{VertexAI: &o, Trace: s.trace}); err != nil {
			return err
		}
	}
	return nil
}

// vertexAIModel names the model that answers predictions: the default model, or the only one that is ready. Triton
// refuses an only model that serves several versions.
func (f *fronts) vertexAIModel() (name string) {
	if name := f.c.VertexAI.DefaultModel; name != "" {
		return name
	}
	for _, m := range f.engine.RepositoryIndex(true) { // an entry for each version
		if name != "" && m.GetName() != name {
			return ""
		}
		name = m.GetName()
	}
	return name
}

// checkVertexAI refuses to start if no model answers predictions, unless a program has the server, which may load its
// models later.
func (f *fronts) checkVertexAI() error {
	if !f.c.Listen.VertexAI.On || f.c.Embedded {
		return nil
	}
	name := f.vertexAIModel()
	if name == "" {
		return status.New(status.InvalidArg, "Expect the model repository contains only a single model if default "+
			"model is not specified; say --vertex-ai-default-model=<name>")
	}
	for _, m := range f.engine.RepositoryIndex(true) {
		if m.GetName() == name {
			return nil
		}
	}
	return status.Errorf(status.InvalidArg, "Expect the default model '%s' is loaded", name)
}
