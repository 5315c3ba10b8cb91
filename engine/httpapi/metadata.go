package httpapi

import (
	"maps"
	"slices"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
)

func serverMetadata(s *Server, x *exchange) error {
	m := s.opt.Engine.ServerMetadata()
	x.json(tensorjson.Object("name", m.GetName(), "version", m.GetVersion(), "extensions", m.GetExtensions()))
	return nil
}

func serverLive(s *Server, x *exchange) error { return x.health(s.opt.Engine.Live()) }

func serverReady(s *Server, x *exchange) error {
	return x.health(s.opt.Engine.Ready() && !s.conns.closing.Load())
}

// health answers a question of the health routes.
func (x *exchange) health(ok bool) error {
	x.empty(400, typeText)
	if ok {
		x.status = 200
	}
	return nil
}

func modelList(s *Server, x *exchange) error {
	x.json(indexJSON(s.opt.Engine.RepositoryIndex(false)))
	return nil
}

// indexJSON lists the models of the repositories. Empty fields are left out.
func indexJSON(index []*inferencepb.RepositoryIndexResponse_ModelIndex) tensorjson.JSON {
	return tensorjson.Array(index, func(m *inferencepb.RepositoryIndexResponse_ModelIndex) tensorjson.JSON {
		fields := []any{"name", m.GetName()}
		for _, f := range [...]struct{ key, value string }{
			{"version", m.GetVersion()}, {"state", m.GetState()}, {"reason", m.GetReason()},
		} {
			if f.value != "" {
				fields = append(fields, f.key, f.value)
			}
		}
		return tensorjson.Object(fields...)
	})
}

func modelReady(s *Server, x *exchange) error {
	name, version, err := s.target(x)
	if err != nil {
		return err
	}
	if ready, err := s.opt.Engine.ModelReady(name, version); err != nil || !ready {
		return status.New(status.InvalidArg, "Model version not ready")
	}
	x.empty(200, typeText)
	return nil
}

func modelMetadata(s *Server, x *exchange) error {
	name, version, err := s.target(x)
	if err != nil {
		return err
	}
	m, err := s.opt.Engine.ModelMetadata(name, version)
	if err != nil {
		return err
	}
	tensorMetadata := func(t *inferencepb.ModelMetadataResponse_TensorMetadata) tensorjson.JSON {
		return tensorjson.Object("name", t.GetName(), "datatype", t.GetDatatype(), "shape", t.GetShape())
	}
	x.json(tensorjson.Object("name", m.GetName(), "versions", m.GetVersions(), "platform", m.GetPlatform(),
		"inputs", tensorjson.Array(m.GetInputs(), tensorMetadata),
		"outputs", tensorjson.Array(m.GetOutputs(), tensorMetadata)))
	return nil
}

func modelConfig(s *Server, x *exchange) error {
	name, version, err := s.target(x)
	if err != nil {
		return err
	}
	cfg, err := s.opt.Engine.ModelConfig(name, version)
	if err == nil {
		x.json(modelconfig.MarshalJSON(cfg))
	}
	return err
}

func modelStatistics(s *Server, x *exchange) error {
	name, version, err := s.target(x)
	if err != nil {
		return err
	}
	return s.statistics(x, name, version)
}

func allStatistics(s *Server, x *exchange) error { return s.statistics(x, "", -1) }

func (s *Server) statistics(x *exchange, name string, version int64) error {
	m, err := s.opt.Engine.ModelStatistics(name, version)
	if err == nil {
		x.json(tensorjson.Object("model_stats", tensorjson.Array(m.GetModelStats(), statisticsJSON)))
	}
	return err
}

func statisticsJSON(m *inferencepb.ModelStatistics) tensorjson.JSON {
	is := m.GetInferenceStats()
	responses := []any{}
	for _, key := range slices.Sorted(maps.Keys(m.GetResponseStats())) {
		rs := m.GetResponseStats()[key]
		responses = append(responses, key, tensorjson.Object(
			"compute_infer", duration(rs.GetComputeInfer()), "compute_output", duration(rs.GetComputeOutput()),
			"success", duration(rs.GetSuccess()), "fail", duration(rs.GetFail()),
			"empty_response", duration(rs.GetEmptyResponse()), "cancel", duration(rs.GetCancel())))
	}
	return tensorjson.Object("name", m.GetName(), "version", m.GetVersion(),
		"last_inference", m.GetLastInference(), "inference_count", m.GetInferenceCount(),
		"execution_count", m.GetExecutionCount(),
		"inference_stats", tensorjson.Object(
			"success", duration(is.GetSuccess()), "fail", duration(is.GetFail()), "queue", duration(is.GetQueue()),
			"compute_input", duration(is.GetComputeInput()), "compute_infer", duration(is.GetComputeInfer()),
			"compute_output", duration(is.GetComputeOutput()),
			"cache_hit", duration(is.GetCacheHit()), "cache_miss", duration(is.GetCacheMiss())),
		"response_stats", tensorjson.Object(responses...),
		"batch_stats", tensorjson.Array(m.GetBatchStats(), func(b *inferencepb.InferBatchStatistics) tensorjson.JSON {
			return tensorjson.Object("batch_size", b.GetBatchSize(), "compute_input", duration(b.GetComputeInput()),
				"compute_infer", duration(b.GetComputeInfer()), "compute_output", duration(b.GetComputeOutput()))
		}),
		"memory_usage", tensorjson.Array(m.GetMemoryUsage(), func(u *inferencepb.MemoryUsage) tensorjson.JSON {
			return tensorjson.Object("type", u.GetType(), "id", u.GetId(), "byte_size", u.GetByteSize())
		}))
}

func duration(d *inferencepb.StatisticDuration) tensorjson.JSON {
	return tensorjson.Object("count", d.GetCount(), "ns", d.GetNs())
}
