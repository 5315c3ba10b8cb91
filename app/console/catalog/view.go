package catalog

import (
	"slices"
	"strconv"
	"time"

	"nereid/app/console/api"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// View returns a model as the console's interface shows it.
func (c *Catalog) View(in Model) api.Model {
	st := in.Status
	m := api.Model{
		Name: in.Name, State: api.StateUnavailable,
		Repository: in.Repository, Folder: in.Folder, ConfigPath: in.ConfigPath, ConfigExists: in.Text != nil,
		MemoryBytes: st.Memory.Host, MemorySource: string(st.Memory.Source), GPUSource: string(st.Memory.GPUSource),
		Pinned: st.Pinned,
	}
	for _, n := range st.Memory.GPU {
		m.GPUBytes += n
	}
	if st.Waits != nil {
		m.Reason = status.Reason(st.Waits)
	}
	if st.Err != nil {
		m.Reason = status.Reason(st.Err)
	}
	installing := c.Installing != nil && c.Installing(in.Name)
	if installing {
		m.Condition = api.ConditionInstalling
	}
	rank := []api.State{api.StateUnavailable, api.StateUnloading, api.StateLoading, api.StateReady}
	for _, v := range st.Versions {
		out := c.version(in.Name, v)
		out.Condition = condition(v, st, installing)
		if out.Condition == api.ConditionOverBudget && m.Reason == "" {
			m.Reason = status.Reason(st.Short)
		}
		if v.Model != nil {
			m.Instances, m.Resident = v.Model.Instances(), true
		}
		if slices.Index(rank, out.State) > slices.Index(rank, m.State) {
			m.State = out.State
		}
		m.Versions = append(m.Versions, out)
	}
	cfg := Running(st) // after a failed reload, st.Config is the one that failed
	if cfg == nil {
		cfg = st.Config
	}
	if cfg != nil {
		m.Backend, m.Platform = cfg.GetBackend(), cfg.GetPlatform()
		m.MaxBatchSize = int(cfg.GetMaxBatchSize())
		m.DynamicBatching = cfg.GetDynamicBatching() != nil
		m.Decoupled = cfg.GetModelTransactionPolicy().GetDecoupled()
		m.Ensemble = cfg.GetEnsembleScheduling() != nil
		m.Sequences = cfg.GetSequenceBatching() != nil
		m.Inputs, m.Outputs = Tensors(cfg, nil)
	}
	return m
}

func (c *Catalog) version(name string, v lifecycle.VersionStatus) api.Version {
	out := api.Version{
		Version: strconv.FormatInt(v.Version, 10), State: api.State(v.State), Reason: v.Reason,
		LastMinute: c.Recent(name, v.Version), Evicted: v.Evicted, FetchedBytes: v.Fetched, FetchBytes: v.Fetching,
	}
	if !v.Since.IsZero() {
		out.SinceMs = v.Since.UnixMilli()
	}
	if v.Model != nil {
		out.LoadMs, out.Golden = Milliseconds(v.Model.LoadTime()), v.Model.Golden()
	}
	return out
}

func condition(v lifecycle.VersionStatus, st lifecycle.ModelStatus, installing bool) api.Condition {
	switch {
	case installing && v.Model == nil && !v.Evicted:
		return api.ConditionInstalling
	case v.State == lifecycle.Unavailable && v.Reason == "unloaded":
		return api.ConditionUnloaded
	case v.Model == nil && v.State != lifecycle.Loading && st.Short != nil:
		return api.ConditionOverBudget
	}
	return api.ConditionNone
}

// Milliseconds returns a duration in the unit of the console's interface.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Tensors returns the inputs and outputs of a configuration. dimNames returns the names that the model file gives to a
// tensor's dimensions; nil: they are not known.
func Tensors(cfg *inferencepb.ModelConfig, dimNames func(tensor string) []string) (in, out []api.Tensor) {
	describe := func(name string, dt inferencepb.DataType, dims []int64) api.Tensor {
		t := api.Tensor{
			Name: name, DataType: tensor.DataType(dt).String(), Dims: slices.Clone(dims), Shape: slices.Clone(dims),
			Format: inferencepb.ModelInput_FORMAT_NONE.String(),
		}
		if cfg.GetMaxBatchSize() > 0 {
			t.Shape = append([]int64{-1}, dims...)
		}
		if dimNames != nil {
			if names := dimNames(name); len(names) == len(t.Shape) {
				t.DimNames = names
			}
		}
		return t
	}
	for _, i := range cfg.GetInput() {
		t := describe(i.GetName(), i.GetDataType(), i.GetDims())
		t.Format, t.Optional = i.GetFormat().String(), i.GetOptional()
		in = append(in, t)
	}
	for _, o := range cfg.GetOutput() {
		t := describe(o.GetName(), o.GetDataType(), o.GetDims())
		t.Labels = o.GetLabelFilename() != ""
		out = append(out, t)
	}
	return in, out
}
