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
	x.json(ServerMetadataJSON(s.opt.Engine.ServerMetadata()))
	return nil
}

// ServerMetadataJSON is the server's metadata, as clients get it.
func ServerMetadataJSON(m *inferencepb.ServerMetadataResponse) tensorjson.JSON {
	return tensorjson.Object("name", m.GetName(), "version", m.GetVersion(), "extensions", m.GetExtensions())
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
	x.json(IndexJSON(s.opt.Engine.RepositoryIndex(false)))
	return nil
}

// IndexJSON lists the models of the repositories, as clients get it. Empty fields are left out.
func IndexJSON(index []*inferencepb.RepositoryIndexResponse_ModelIndex) tensorjson.JSON {
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
	x.json(ModelMetadataJSON(m))
	return nil
}

// ModelMetadataJSON is the metadata of a model, as clients get it.
func ModelMetadataJSON(m *inferencepb.ModelMetadataResponse) tensorjson.JSON {
	tensorMetadata := func(t *inferencepb.ModelMetadataResponse_TensorMetadata) tensorjson.JSON {
		return tensorjson.Object("name", t.GetName(), "datatype", t.GetDatatype(), "shape", t.GetShape())
	}
	return tensorjson.Object("name", m.GetName(), "versions", m.GetVersions(), "platform", m.GetPlatform(),
		"inputs", tensorjson.Array(m.GetInputs(), tensorMetadata),
		"outputs", tensorjson.Array(m.GetOutputs(), tensorMetadata))
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
		x.json(StatisticsJSON(m))
	}
	return err
}

// StatisticsJSON is the statistics of models, as clients get them.
func StatisticsJSON(m *inferencepb.ModelStatisticsResponse) tensorjson.JSON {
	return tensorjson.Object("model_stats", tensorjson.Array(m.GetModelStats(), statisticsJSON))
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
