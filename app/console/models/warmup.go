package models

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/tensor"
)

// WarmUp runs requests one after another and returns the latency of each inside the server. The requests come from the
// model's model_warmup, otherwise they have zeros.
func (h *Handler) WarmUp(r *http.Request, req *api.WarmupRequest) (out api.WarmupResult, err error) {
	if req.Count == 0 {
		req.Count = 20
	}
	if req.Count < 2 || req.Count > 1000 {
		return out, rest.Errorf(api.CodeInvalid, "count %d must be from 2 to 1000", req.Count)
	}
	m, err := h.Catalog.Find(r.PathValue("name"))
	if err != nil {
		return out, err
	}
	v, err := m.ReadyVersion(req.Version)
	if err != nil {
		return out, err
	}
	cfg := v.Model.Config()
	if v.Model.Decoupled() {
		return out, rest.Errorf(api.CodeInvalid,
			"model %q may answer many times (it is decoupled); its latency is not that of one answer", m.Name)
	}
	entry, source, err := warmupEntry(cfg, req.Batch)
	if err != nil {
		return out, err
	}
	inputs, err := model.WarmupInputs(m.Folder, cfg, entry)
	if err != nil {
		return out, err
	}
	out = api.WarmupResult{
		Version: strconv.FormatInt(v.Version, 10), Batch: int(max(entry.GetBatchSize(), 1)), Source: source,
	}
	for range req.Count {
		us, err := h.inferOnce(r.Context(), m.Name, v.Version, inputs, newSequence(cfg))
		if err != nil {
			return out, err
		}
		out.SamplesUs = append(out.SamplesUs, us)
	}
	out.FirstUs = out.SamplesUs[0]
	out.SettledUs = median(out.SamplesUs[len(out.SamplesUs)/2:])
	return out, nil
}

// newSequence returns a new correlation ID for a request to a model with sequences, a zero one for other models.
func newSequence(cfg *inferencepb.ModelConfig) infer.CorrelationID {
	if cfg.GetSequenceBatching() == nil {
		return infer.CorrelationID{}
	}
	n := rand.Uint32()>>2 | 1<<29 // fits every type of a correlation ID; clients rarely use such numbers
	for _, in := range cfg.GetSequenceBatching().GetControlInput() {
		for _, ctl := range in.GetControl() {
			if ctl.GetKind() == inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID &&
				ctl.GetDataType() == inferencepb.DataType_TYPE_STRING {
				return infer.CorrelationID{Text: "warm-up-" + strconv.FormatUint(uint64(n), 10)}
			}
		}
	}
	return infer.CorrelationID{Number: uint64(n)}
}

// inferOnce runs one request and returns its latency inside the server in microseconds. With a correlation ID the
// request is a whole sequence.
func (h *Handler) inferOnce(ctx context.Context, model string, version int64, inputs []tensor.Tensor,
	sequence infer.CorrelationID) (float64, error) {
	q := infer.New()
	defer q.Release()
	q.ModelName, q.Version = model, version
	if sequence != (infer.CorrelationID{}) {
		q.Correlation, q.Flags = sequence, infer.SequenceStart|infer.SequenceEnd
	}
	for _, in := range inputs {
		shape := q.Dims(len(in.Shape))
		copy(shape, in.Shape)
		in.Shape = shape
		q.Inputs = append(q.Inputs, in)
	}
	q.Times.Arrived = infer.Now()
	if err := h.Engine.Infer(ctx, q); err != nil {
		return 0, err
	}
	for {
		resp, err := q.Next(ctx)
		if err != nil {
			q.Cancel()
			return 0, err
		}
		err, final := resp.Err, resp.Final
		resp.Release()
		if err != nil {
			return 0, err
		}
		if final {
			return float64(q.Times.Finished.Sub(q.Times.Arrived).Nanoseconds()) / 1000, nil
		}
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// warmupEntry returns a description of the requests: the model's first model_warmup entry if it has one, or else zeros
// for the required inputs, with 1 for each variable dimension. Only the second has the given batch size.
func warmupEntry(cfg *inferencepb.ModelConfig, batch int) (entry *inferencepb.ModelWarmup, source string, err error) {
	most := int(cfg.GetMaxBatchSize())
	if batch == 0 || most == 0 {
		batch = 1
	}
	if batch < 1 || most > 0 && batch > most {
		return nil, "", rest.Errorf(api.CodeInvalid, "batch %d must be from 1 to max_batch_size, %d", batch, most)
	}
	if all := cfg.GetModelWarmup(); len(all) > 0 {
		return all[0], "model_warmup", nil
	}
	inputs := map[string]*inferencepb.ModelWarmup_Input{}
	entry = &inferencepb.ModelWarmup{Name: "zeros", BatchSize: uint32(batch), Inputs: inputs}
	for _, in := range cfg.GetInput() {
		if in.GetOptional() {
			continue
		}
		dims := slices.Clone(in.GetDims())
		for i, d := range dims {
			dims[i] = max(d, 1)
		}
		inputs[in.GetName()] = &inferencepb.ModelWarmup_Input{DataType: in.GetDataType(), Dims: dims,
			InputDataType: &inferencepb.ModelWarmup_Input_ZeroData{ZeroData: true}}
	}
	return entry, "zeros", nil
}
