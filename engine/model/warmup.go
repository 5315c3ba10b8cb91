package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/instance"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// sample is one model_warmup entry with its input data.
type sample struct {
	name   string
	count  int // how often it is executed
	inputs []tensor.Tensor
}

// warmupSamples makes the samples of all model_warmup entries. Errors: those of WarmupInputs.
func warmupSamples(folder string, cfg *inferencepb.ModelConfig) ([]sample, error) {
	var all []sample
	for _, w := range cfg.GetModelWarmup() {
		s := sample{name: w.GetName(), count: int(max(w.GetCount(), 1))}
		var err error
		if s.inputs, err = WarmupInputs(folder, cfg, w); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// WarmupInputs returns the inputs of one model_warmup entry, with the entry's batch size. folder is the model's folder.
// The data are zeros, random numbers or the first bytes of a file in the folder warmup; for TYPE_STRING, the file has
// exactly the elements, each with a length prefix. Errors: InvalidArg.
func WarmupInputs(folder string, cfg *inferencepb.ModelConfig, w *inferencepb.ModelWarmup) (out []tensor.Tensor,
	err error) {
	for name, in := range w.GetInputs() {
		t, err := warmupInput(folder, cfg, w.GetName(), name, in, int(max(w.GetBatchSize(), 1)))
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func warmupInput(folder string, cfg *inferencepb.ModelConfig, sampleName, name string,
	in *inferencepb.ModelWarmup_Input, rows int) (tensor.Tensor, error) {
	fail := func(format string, args ...any) (tensor.Tensor, error) {
		return tensor.Tensor{}, status.Errorf(status.InvalidArg, "model '%s', model_warmup '%s', input '%s': "+format,
			append([]any{cfg.GetName(), sampleName, name}, args...)...)
	}
	dt := tensor.DataType(in.GetDataType())
	n, err := tensor.Elements(in.GetDims())
	if err != nil {
		return fail("%w", err)
	}
	size := int64(dt.Size())
	if dt == tensor.Bytes {
		size = 4 // an empty string: only the length prefix
	}
	if n > maxFile || n*size > maxFile/int64(rows) {
		return fail("%d elements in a batch of %d are larger than the %d bytes that a warmup sample may have", n, rows,
			maxFile)
	}
	var row []byte
	switch src := in.GetInputDataType().(type) {
	case *inferencepb.ModelWarmup_Input_ZeroData:
		row = make([]byte, n*size)
	case *inferencepb.ModelWarmup_Input_RandomData:
		row = make([]byte, n*size)
		if dt != tensor.Bytes {
			randomFill(dt, row)
		}
	case *inferencepb.ModelWarmup_Input_InputDataFile:
		if !filepath.IsLocal(src.InputDataFile) {
			return fail("input_data_file %q must be inside the model's warmup folder", src.InputDataFile)
		}
		if row, err = readFile(folderOf(folder, "warmup/"+src.InputDataFile)); err != nil {
			return fail("cannot read input_data_file: %w", err)
		}
		if row, err = fileData(dt, row, n); err != nil {
			return fail("%w", err)
		}
	default:
		return fail("has no data; set zero_data: true, random_data: true or input_data_file")
	}
	shape := in.GetDims()
	data := row
	if cfg.GetMaxBatchSize() > 0 {
		shape = append([]int64{int64(rows)}, shape...)
		data = make([]byte, 0, rows*len(row))
		for range rows {
			data = append(data, row...)
		}
	}
	return tensor.Tensor{Name: name, DataType: dt, Shape: append([]int64(nil), shape...), Data: data}, nil
}

// fileData returns the data of n elements from the content of an input_data_file. As in Triton, the rest of a longer
// file is ignored, but a file of BYTES elements must have exactly n of them. Errors: InvalidArg.
func fileData(dt tensor.DataType, content []byte, n int64) ([]byte, error) {
	if dt == tensor.Bytes {
		return content, tensor.CheckBytes(content, n)
	}
	size := n * int64(dt.Size())
	if int64(len(content)) < size {
		return nil, status.Errorf(status.InvalidArg, "input_data_file has %d bytes, its dims and data_type need %d",
			len(content), size)
	}
	return content[:size], nil
}

// randomFill fills b with random elements: any integers, floats between 0 and 2, and 0 or 1 for BOOL.
func randomFill(dt tensor.DataType, b []byte) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	size := dt.Size()
	switch dt {
	case tensor.Bool:
		for i := range b {
			b[i] &= 1
		}
	case tensor.FP16, tensor.FP32, tensor.FP64, tensor.BF16:
		for i := size - 1; i < len(b); i += size {
			b[i] = 0x3c // in all four types: positive, and an exponent below that of 2
		}
	}
}

// warm executes every sample on a new instance with a name. The statistics do not count that. Log and error have
// Triton's texts.
func warm(ctx context.Context, m *Model, samples []sample, name string, inst backend.Instance) error {
	for _, s := range samples {
		for i := range s.count {
			if err := ctx.Err(); err != nil {
				return err
			}
			m.log.Debug(fmt.Sprintf("model '%s' instance %s is running warmup sample '%s' for iteration %d",
				m.name, name, s.name, i+1))
			if err := runSample(ctx, m, s, inst); err != nil {
				return status.Errorf(status.CodeOf(err), "failed to run warmup sample '%s': %w;", s.name, err)
			}
		}
	}
	return nil
}

// executeAlone executes a batch of one request. When the caller has read the responses, and also after an error, it
// calls done.
func (m *Model) executeAlone(ctx context.Context, r *infer.Request, inst backend.Instance) (done func(), err error) {
	b := infer.NewBatch()
	b.Requests, b.Rows = append(b.Requests, r), r.BatchSize
	b.Begin()
	r.Retain()
	return func() {
		r.Release()
		b.End()
	}, instance.Execute(ctx, inst, b, m.log)
}

func runSample(ctx context.Context, m *Model, s sample, inst backend.Instance) error {
	r := infer.New()
	defer r.Release()
	r.ModelName, r.Served = m.name, m
	var inside []tensor.Tensor // control and state tensors, which clients do not send
	for _, in := range s.inputs {
		if m.sequences != nil && m.signature.input(in.Name) == nil {
			inside = append(inside, in)
		} else {
			r.Inputs = append(r.Inputs, in)
		}
	}
	if err := m.signature.check(r); err != nil {
		return err
	}
	if m.sequences != nil {
		r.Inputs = append(r.Inputs, inside...)
		m.sequences.AddControls(r)
	}
	done, err := m.executeAlone(ctx, r, inst)
	defer done()
	if err != nil {
		return err
	}
	if r.Rescheduled() {
		return nil // the first step of an iterative sequence
	}
	if !r.Answered() && !m.decoupled {
		return status.New(status.Internal, "the backend did not answer")
	}
	for {
		resp, err := r.Next(ctx)
		if err != nil {
			return err
		}
		err = resp.Err
		final := resp.Final
		resp.Release()
		if err != nil || final {
			return err
		}
	}
}
