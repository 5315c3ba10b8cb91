package engine

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// ModelReady reports whether a version of a model is in service; any version for infer.LatestVersion. An unknown model
// is not. The error is always nil.
func (e *Engine) ModelReady(name string, version int64) (bool, error) {
	return e.models.VersionReady(name, version), nil
}

// FindModel returns an error if a request for a model version cannot be taken: Infer would return the same. A version
// that is not in memory is loaded when a request comes.
func (e *Engine) FindModel(name string, version int64) error {
	if _, err := e.models.Find(name, version); !errors.Is(err, lifecycle.ErrEvicted) {
		return err
	}
	return nil
}

// ModelMetadata answers the protocol's model metadata request. Errors: NotFound.
func (e *Engine) ModelMetadata(name string, version int64) (*inferencepb.ModelMetadataResponse, error) {
	cfg, err := e.models.Config(name, version)
	if err != nil {
		return nil, err
	}
	platform := cfg.GetPlatform()
	if platform == "" {
		platform = cfg.GetBackend()
	}
	versions := readyVersions(e.models.Model(name))
	if version > 0 { // as Triton: only the requested version is listed
		versions = []string{strconv.FormatInt(version, 10)}
	}
	_, plain := repo.Split(name)
	meta := &inferencepb.ModelMetadataResponse{Name: plain, Platform: platform, Versions: versions}
	shape := func(dims []int64) []int64 {
		if cfg.GetMaxBatchSize() > 0 {
			return append([]int64{-1}, dims...)
		}
		return slices.Clone(dims)
	}
	for _, in := range cfg.GetInput() {
		meta.Inputs = append(meta.Inputs, &inferencepb.ModelMetadataResponse_TensorMetadata{
			Name: in.GetName(), Datatype: tensor.DataType(in.GetDataType()).String(), Shape: shape(in.GetDims()),
		})
	}
	for _, out := range cfg.GetOutput() {
		meta.Outputs = append(meta.Outputs, &inferencepb.ModelMetadataResponse_TensorMetadata{
			Name: out.GetName(), Datatype: tensor.DataType(out.GetDataType()).String(), Shape: shape(out.GetDims()),
		})
	}
	return meta, nil
}

func readyVersions(s lifecycle.ModelStatus, _ bool) []string {
	var all []string
	for _, v := range s.Versions {
		if v.State == lifecycle.Ready {
			all = append(all, strconv.FormatInt(v.Version, 10))
		}
	}
	return all
}

// ModelConfig returns the effective configuration of a version in service. The caller must not change it. Errors:
// NotFound.
func (e *Engine) ModelConfig(name string, version int64) (*inferencepb.ModelConfig, error) {
	return e.models.Config(name, version)
}

// ModelStatistics answers the protocol's statistics request: of one version, of all versions of a model in service
// (version infer.LatestVersion), or of all models (name ""). Errors: InvalidArg, with Triton's texts.
func (e *Engine) ModelStatistics(name string, version int64) (*inferencepb.ModelStatisticsResponse, error) {
	key := name
	if name != "" {
		s, _ := e.models.Model(name)
		key = s.Name
		serving := slices.ContainsFunc(s.Versions,
			func(v lifecycle.VersionStatus) bool { return v.State == lifecycle.Ready })
		if !serving {
			return nil, status.Errorf(status.InvalidArg, "requested model '%s' is not available", name)
		}
		if version >= 0 && !e.models.VersionReady(name, version) {
			return nil, status.Errorf(status.InvalidArg, "requested model version is not available for model '%s'",
				name)
		}
	}
	resp := &inferencepb.ModelStatisticsResponse{}
	for _, s := range e.stats.Snapshots(nil) {
		if name != "" && s.Model != key || version >= 0 && s.Version != version ||
			!e.models.VersionReady(s.Model, s.Version) {
			continue
		}
		m := statistics(&s)
		m.MemoryUsage = e.memoryUsage(s.Model, s.Version)
		resp.ModelStats = append(resp.ModelStats, m)
	}
	return resp, nil
}

func statistics(s *stats.Snapshot) *inferencepb.ModelStatistics {
	total := func(t stats.Total) *inferencepb.StatisticDuration {
		return &inferencepb.StatisticDuration{Count: t.Count, Ns: t.Ns}
	}
	_, name := repo.Split(s.Model)
	m := &inferencepb.ModelStatistics{
		Name: name, Version: strconv.FormatInt(s.Version, 10), InferenceCount: s.Inferences,
		ExecutionCount: s.Executions,
		InferenceStats: &inferencepb.InferStatistics{
			Success: total(s.Success), Fail: total(s.Fail), Queue: total(s.Queue), ComputeInput: total(s.Input),
			ComputeInfer: total(s.Infer), ComputeOutput: total(s.Output), CacheHit: total(s.CacheHit),
			CacheMiss: total(s.CacheMiss),
		},
	}
	if !s.LastInference.IsZero() {
		m.LastInference = uint64(s.LastInference.UnixMilli())
	}
	for _, b := range s.Batches {
		m.BatchStats = append(m.BatchStats, &inferencepb.InferBatchStatistics{
			BatchSize: b.Size, ComputeInput: total(b.Input), ComputeInfer: total(b.Infer),
			ComputeOutput: total(b.Output),
		})
	}
	for i, r := range s.Responses {
		if m.ResponseStats == nil {
			m.ResponseStats = map[string]*inferencepb.InferResponseStatistics{}
		}
		m.ResponseStats[strconv.Itoa(i)] = &inferencepb.InferResponseStatistics{
			ComputeInfer: total(r.Infer), ComputeOutput: total(r.Output), Success: total(r.Success),
			Fail:          total(r.Fail),
			EmptyResponse: total(r.Empty), Cancel: total(r.Cancel),
		}
	}
	return m
}

// memoryUsage returns the memory of a version in service by kind, as far as it is measured.
func (e *Engine) memoryUsage(name string, version int64) (all []*inferencepb.MemoryUsage) {
	known, _ := e.models.Model(name)
	for _, v := range known.Versions {
		if v.Version != version || v.Model == nil {
			continue
		}
		mem := v.Model.Memory()
		if mem.Source != model.FromFiles && mem.Host > 0 {
			all = append(all, &inferencepb.MemoryUsage{Type: "CPU", ByteSize: uint64(mem.Host)})
		}
		if mem.GPUSource == model.FromFiles {
			continue // only an estimate
		}
		for _, gpu := range slices.Sorted(maps.Keys(mem.GPU)) {
			all = append(all, &inferencepb.MemoryUsage{Type: "GPU", Id: int64(gpu), ByteSize: uint64(mem.GPU[gpu])})
		}
	}
	return all
}

// RepositoryIndex answers the protocol's index request. It lists every version of every model with its state, and the
// reason if it is not in service as configured. A model that was never loaded has only its name. If ready is set, only
// the versions in service are listed.
func (e *Engine) RepositoryIndex(ready bool) []*inferencepb.RepositoryIndexResponse_ModelIndex {
	all := []*inferencepb.RepositoryIndexResponse_ModelIndex{}
	models := e.models.Models()
	if !ready {
		for _, key := range e.models.Untried() {
			models = append(models, lifecycle.ModelStatus{Name: key})
		}
		slices.SortStableFunc(models, func(a, b lifecycle.ModelStatus) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, m := range models {
		_, name := repo.Split(m.Name) // as in Triton: models of the same name have rows that look the same
		if len(m.Versions) == 0 && !ready {
			row := &inferencepb.RepositoryIndexResponse_ModelIndex{Name: name}
			if err := cmp.Or(m.Err, m.Waits); err != nil {
				row.State, row.Reason = string(lifecycle.Unavailable), status.Reason(err)
			}
			all = append(all, row)
		}
		for _, v := range m.Versions {
			if !ready || v.State == lifecycle.Ready {
				all = append(all, &inferencepb.RepositoryIndexResponse_ModelIndex{
					Name: name, Version: strconv.FormatInt(v.Version, 10), State: string(v.State),
					Reason: indexReason(&m, &v),
				})
			}
		}
	}
	return all
}

// indexReason returns the reason that the repository index shows for a version.
func indexReason(m *lifecycle.ModelStatus, v *lifecycle.VersionStatus) string {
	switch {
	case m.Err != nil && v.Evicted:
		return "not in memory; its next request loads it, which failed last time: " + status.Reason(m.Err)
	case m.Err != nil && v.State == lifecycle.Ready:
		return "reload failed, what was loaded before goes on serving: " + status.Reason(m.Err)
	case v.Reason == "" && v.Evicted:
		return "not in memory; its next request loads it"
	case v.Reason == "" && m.Waits != nil:
		return status.Reason(m.Waits)
	case m.Err != nil && v.State == lifecycle.Unavailable && (v.Reason == "" || v.Reason == "unloaded"):
		return status.Reason(m.Err) // the load failed after the unload
	}
	return v.Reason
}
