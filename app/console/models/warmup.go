package models

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

const maxWarmupBytes = 1 << 30

// WarmUp runs generated requests one after another and returns the latency of each inside the server.
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
	inputs, rows, source, err := warmupInputs(cfg, m.Folder, req.Batch)
	if err != nil {
		return out, err
	}
	out = api.WarmupResult{Version: strconv.FormatInt(v.Version, 10), Batch: rows, Source: source}
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
	n := rand.Uint32()>>2 | 1<<29 // fits every type of a correlation ID; clients seldom use such numbers
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

// warmupInputs generates the inputs of a request: the model's first model_warmup sample if it has one, or else zeros in
// the shape of the configuration, with 1 for each variable dimension.
func warmupInputs(cfg *inferencepb.ModelConfig, folder string, batch int) (
	inputs []tensor.Tensor, rows int, source string, err error) {
	most := int(cfg.GetMaxBatchSize())
	if batch == 0 || most == 0 {
		batch = 1
	}
	if batch < 1 || most > 0 && batch > most {
		return nil, 0, "", rest.Errorf(api.CodeInvalid, "batch %d must be from 1 to max_batch_size, %d", batch, most)
	}
	if len(cfg.GetModelWarmup()) > 0 {
		s := cfg.GetModelWarmup()[0]
		batch = max(int(s.GetBatchSize()), 1)
		for name, in := range s.GetInputs() {
			dt := tensor.DataType(in.GetDataType())
			t, err := warmupTensor(name, dt, in.GetDims(), batch, most > 0, func(row []byte) ([]byte, error) {
				return fill(in, dt, row, folder)
			})
			if err != nil {
				return nil, 0, "", err
			}
			inputs = append(inputs, t)
		}
		return inputs, batch, "model_warmup", nil
	}
	for _, in := range cfg.GetInput() {
		if in.GetOptional() {
			continue
		}
		dims := slices.Clone(in.GetDims())
		for i, d := range dims {
			dims[i] = max(d, 1)
		}
		t, err := warmupTensor(in.GetName(), tensor.DataType(in.GetDataType()), dims, batch, most > 0, nil)
		if err != nil {
			return nil, 0, "", err
		}
		inputs = append(inputs, t)
	}
	return inputs, batch, "zeros", nil
}

// warmupTensor makes a tensor of equal rows: zeros, or what fill makes of them. Zeros of type BYTES are empty strings:
// four zero bytes each.
func warmupTensor(name string, dt tensor.DataType, dims []int64, rows int, batched bool,
	fill func([]byte) ([]byte, error)) (tensor.Tensor, error) {
	n, err := tensor.Elements(dims)
	if err == nil && (n > maxWarmupBytes || n*int64(max(dt.Size(), 4))*int64(rows) > maxWarmupBytes) {
		err = errors.New("it is larger than 1 GiB")
	}
	if err != nil {
		return tensor.Tensor{}, rest.Errorf(api.CodeInvalid, "no request can be made up for input %q: %v", name, err)
	}
	size := int64(dt.Size())
	if dt == tensor.Bytes {
		size = 4
	}
	row := make([]byte, n*size)
	if fill != nil {
		if row, err = fill(row); err != nil {
			return tensor.Tensor{}, rest.Errorf(api.CodeInvalid, "no request can be made up for input %q: %v", name,
				err)
		}
	}
	t := tensor.Tensor{Name: name, DataType: dt, Shape: slices.Clone(dims), Data: row}
	if batched {
		t.Shape = append([]int64{int64(rows)}, dims...)
		t.Data = slices.Repeat(row, rows)
	}
	return t, nil
}

// fill returns the content that a model_warmup input describes.
func fill(in *inferencepb.ModelWarmup_Input, dt tensor.DataType, row []byte, folder string) ([]byte, error) {
	switch src := in.GetInputDataType().(type) {
	case *inferencepb.ModelWarmup_Input_InputDataFile:
		root, err := os.OpenRoot(filepath.Join(folder, "warmup"))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		return root.ReadFile(filepath.FromSlash(src.InputDataFile))
	case *inferencepb.ModelWarmup_Input_RandomData:
		if dt == tensor.Bytes {
			return row, nil
		}
		for i := range row {
			row[i] = byte(rand.Uint32())
			switch size := dt.Size(); dt {
			case tensor.Bool:
				row[i] &= 1
			case tensor.FP16, tensor.BF16, tensor.FP32, tensor.FP64:
				if i%size == size-1 {
					row[i] = 0x3c // sign and exponent of a number from 0 to 2
				}
			}
		}
	}
	return row, nil
}
