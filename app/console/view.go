package console

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"nereid/app/console/api"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/store"
)

// allModels are all models as the page sees them, by name.
func (c *Console) allModels() []api.Model {
	out := []api.Model{}
	for _, name := range slices.Sorted(maps.Keys(c.names())) {
		if st, p, err := c.locate(name); err == nil { // else it went away meanwhile
			out = append(out, c.view(st, p))
		}
	}
	return out
}

// view is a model as the page sees it.
func (c *Console) view(st lifecycle.ModelStatus, p place) api.Model {
	m := api.Model{
		Name: st.Name, State: api.StateUnavailable,
		Repository: p.repository, Folder: p.folder, ConfigPath: p.config, ConfigExists: p.text != nil,
		MemoryBytes: st.Memory.Host, MemorySource: string(st.Memory.Source), GPUSource: string(st.Memory.GPUSource), Pinned: st.Pinned,
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
	rank := []api.State{api.StateUnavailable, api.StateUnloading, api.StateLoading, api.StateReady}
	for _, v := range st.Versions {
		out := api.Version{Version: strconv.FormatInt(v.Version, 10), State: api.State(v.State), Reason: v.Reason,
			LastMinute: c.recent(st.Name, v.Version), Evicted: v.Evicted, FetchedBytes: v.Fetched, FetchBytes: v.Fetching}
		if !v.Since.IsZero() {
			out.SinceMs = v.Since.UnixMilli()
		}
		if v.Model != nil {
			out.LoadMs, out.Golden = ms(v.Model.LoadTime()), v.Model.Golden()
			m.Instances, m.Resident = v.Model.Instances(), true
		}
		if slices.Index(rank, out.State) > slices.Index(rank, m.State) {
			m.State = out.State
		}
		m.Versions = append(m.Versions, out)
	}
	if cfg := st.Config; cfg != nil {
		m.Backend, m.Platform = cfg.GetBackend(), cfg.GetPlatform()
		m.MaxBatchSize = int(cfg.GetMaxBatchSize())
		m.DynamicBatching = cfg.GetDynamicBatching() != nil
		m.Decoupled = cfg.GetModelTransactionPolicy().GetDecoupled()
		m.Ensemble = cfg.GetEnsembleScheduling() != nil
		m.Sequences = cfg.GetSequenceBatching() != nil
		m.Inputs, m.Outputs = tensors(cfg, nil)
	}
	return m
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// tensors are the inputs and outputs of a configuration. dimNames answers the names of a tensor's dimensions as the
// model file has them, if anybody knows them.
func tensors(cfg *inferencepb.ModelConfig, dimNames func(name string) []string) (in, out []api.Tensor) {
	shape := func(dims []int64) []int64 {
		if cfg.GetMaxBatchSize() > 0 {
			return append([]int64{-1}, dims...)
		}
		return slices.Clone(dims)
	}
	make := func(name string, dt inferencepb.DataType, dims []int64) api.Tensor {
		t := api.Tensor{Name: name, DataType: tensor.DataType(dt).String(), Dims: slices.Clone(dims), Shape: shape(dims),
			Format: inferencepb.ModelInput_FORMAT_NONE.String()}
		if dimNames != nil {
			if names := dimNames(name); len(names) == len(t.Shape) {
				t.DimNames = names
			}
		}
		return t
	}
	for _, i := range cfg.GetInput() {
		t := make(i.GetName(), i.GetDataType(), i.GetDims())
		t.Format, t.Optional = i.GetFormat().String(), i.GetOptional()
		in = append(in, t)
	}
	for _, o := range cfg.GetOutput() {
		t := make(o.GetName(), o.GetDataType(), o.GetDims())
		t.Labels = o.GetLabelFilename() != ""
		out = append(out, t)
	}
	return in, out
}

const spark = 60

// recent is the last minute of a version.
func (c *Console) recent(model string, version int64) api.Recent {
	r := api.Recent{Spark: make([]float64, spark)}
	seconds, end := c.o.Recorder.Recent(model, version)
	var h store.Histogram
	for i := range seconds {
		p := &seconds[i]
		r.Requests += p.Requests
		r.Failures += p.Failures.Total()
		h.Merge(p.Histogram())
		if at := spark - (end-p.StartUS)/1_000_000; at >= 0 && at < spark {
			r.Spark[at] += float64(p.Requests)
		}
	}
	r.QPS = float64(r.Requests) / spark
	r.P50Us, r.P99Us = quantile(&h, 0.50), quantile(&h, 0.99)
	return r
}

// quantile is a latency in microseconds; nil without requests.
func quantile(h *store.Histogram, q float64) *float64 {
	if h.Count() == 0 {
		return nil
	}
	us := float64(h.Quantile(q)) / float64(time.Microsecond)
	return &us
}

// mean is sum/n in microseconds of a sum of nanoseconds; nil for no n.
func mean(ns, n int64) *float64 {
	if n == 0 {
		return nil
	}
	us := float64(ns) / float64(n) / 1000
	return &us
}
