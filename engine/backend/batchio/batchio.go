package batchio

import (
	"encoding/binary"
	"math"
	"slices"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Plan is what a model configuration says about batches. A nil Plan is empty.
type Plan struct {
	// Inputs are the inputs that the backend computes for each batch, one for each target name of batch_input.
	Inputs  []Input
	outputs map[string]*Output
	ragged  []string
}

// New reads a valid configuration. Entries without a source are left out. It returns nil if the plan is empty.
func New(cfg *inferencepb.ModelConfig) *Plan {
	p := &Plan{outputs: map[string]*Output{}}
	batched := cfg.GetMaxBatchSize() > 0
	for _, in := range cfg.GetInput() {
		if in.GetAllowRaggedBatch() && batched {
			p.ragged = append(p.ragged, in.GetName())
		}
	}
	for _, b := range cfg.GetBatchInput() {
		for _, name := range b.GetTargetName() {
			if len(b.GetSourceInput()) == 0 {
				continue
			}
			p.Inputs = append(p.Inputs, Input{Name: name, DataType: tensor.DataType(b.GetDataType()),
				kind: b.GetKind(), source: b.GetSourceInput()[0], batched: batched})
		}
	}
	for _, b := range cfg.GetBatchOutput() {
		for _, name := range b.GetTargetName() {
			if len(b.GetSourceInput()) == 0 {
				continue
			}
			p.outputs[name] = newOutput(cfg, name, b.GetSourceInput()[0])
		}
	}
	if len(p.ragged)+len(p.Inputs)+len(p.outputs) == 0 {
		return nil
	}
	return p
}

// Ragged reports whether an input may have another shape in each request. The model gets the elements of all requests
// in one dimension.
func (p *Plan) Ragged(input string) bool { return p != nil && slices.Contains(p.ragged, input) }

// Input returns the batch input with a name, nil if there is none.
func (p *Plan) Input(name string) *Input {
	if p == nil {
		return nil
	}
	for i := range p.Inputs {
		if p.Inputs[i].Name == name {
			return &p.Inputs[i]
		}
	}
	return nil
}

// Output returns how an output is split, nil if it is split by rows.
func (p *Plan) Output(name string) *Output {
	if p == nil {
		return nil
	}
	return p.outputs[name]
}

// Input is an input that the backend computes.
type Input struct {
	Name     string
	DataType tensor.DataType // INT32 or FP32
	kind     inferencepb.BatchInput_Kind
	source   string
	batched  bool
}

// Rank returns the number of dimensions of the tensor.
func (in *Input) Rank() int {
	if in.kind == inferencepb.BatchInput_BATCH_ITEM_SHAPE {
		return 2
	}
	return 1
}

// Shape appends the tensor's shape for the requests of a batch to dst. Errors: InvalidArg if a request lacks the
// source.
func (in *Input) Shape(dst []int64, requests []*infer.Request) ([]int64, error) {
	n := int64(len(requests))
	switch in.kind {
	case inferencepb.BatchInput_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO:
		return append(dst, n+1), nil
	case inferencepb.BatchInput_BATCH_MAX_ELEMENT_COUNT_AS_SHAPE:
		most := int64(0)
		for _, r := range requests {
			count, err := in.count(r)
			if err != nil {
				return dst, err
			}
			most = max(most, count)
		}
		return append(dst, most), nil
	case inferencepb.BatchInput_BATCH_ITEM_SHAPE, inferencepb.BatchInput_BATCH_ITEM_SHAPE_FLATTEN:
		rows, rank := int64(0), int64(0)
		for _, r := range requests {
			count, dims, err := in.items(r)
			if err != nil {
				return dst, err
			}
			rows, rank = rows+count, int64(len(dims))
		}
		if in.kind == inferencepb.BatchInput_BATCH_ITEM_SHAPE {
			return append(dst, rows, rank), nil
		}
		return append(dst, rows*rank), nil
	default: // BATCH_ELEMENT_COUNT, BATCH_ACCUMULATED_ELEMENT_COUNT
		return append(dst, n), nil
	}
}

// Fill writes the tensor's values, four bytes each in the machine's byte order, to dst, which has the size of Shape.
// The values of BATCH_MAX_ELEMENT_COUNT_AS_SHAPE have no meaning and are zeros.
func (in *Input) Fill(dst []byte, requests []*infer.Request) error {
	w := writer{dst: dst, float: in.DataType == tensor.FP32}
	switch in.kind {
	case inferencepb.BatchInput_BATCH_MAX_ELEMENT_COUNT_AS_SHAPE:
		clear(dst)
		return nil
	case inferencepb.BatchInput_BATCH_ITEM_SHAPE, inferencepb.BatchInput_BATCH_ITEM_SHAPE_FLATTEN:
		for _, r := range requests {
			rows, dims, err := in.items(r)
			if err != nil {
				return err
			}
			for range rows {
				for _, d := range dims {
					w.put(d)
				}
			}
		}
		return nil
	case inferencepb.BatchInput_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO:
		w.put(0)
	}
	total := int64(0)
	for _, r := range requests {
		n, err := in.count(r)
		if err != nil {
			return err
		}
		if in.kind == inferencepb.BatchInput_BATCH_ELEMENT_COUNT {
			total = 0
		}
		total += n
		w.put(total)
	}
	return nil
}

type writer struct {
	dst   []byte
	float bool
}

func (w *writer) put(n int64) {
	v := uint32(int32(n))
	if w.float {
		v = math.Float32bits(float32(n))
	}
	binary.NativeEndian.PutUint32(w.dst, v)
	w.dst = w.dst[4:]
}

// sourceOf returns the source input of a request.
func sourceOf(r *infer.Request, source string, made string) (*tensor.Tensor, error) {
	t := r.Input(source)
	if t == nil {
		return nil, status.Errorf(status.InvalidArg,
			"input '%s' is missing; '%s' of model '%s' is made from it", source, made, r.ModelName)
	}
	return t, nil
}

func (in *Input) count(r *infer.Request) (int64, error) {
	t, err := sourceOf(r, in.source, in.Name)
	if err != nil {
		return 0, err
	}
	return tensor.Elements(t.Shape)
}

// items returns how many rows the request's source has and the shape of each.
func (in *Input) items(r *infer.Request) (rows int64, dims []int64, err error) {
	t, err := sourceOf(r, in.source, in.Name)
	switch {
	case err != nil:
		return 0, nil, err
	case !in.batched:
		return 1, t.Shape, nil
	case len(t.Shape) == 0:
		return 0, nil, status.Errorf(status.InvalidArg,
			"input '%s' of model '%s' has no batch dimension", in.source, r.ModelName)
	}
	return t.Shape[0], t.Shape[1:], nil
}

// Output describes how an output with the elements of all requests is split. Each request gets as many as its shape
// has.
type Output struct {
	name   string
	source string
	dims   []int64 // with the batch dimension; -1: the dimension of the source
}

func newOutput(cfg *inferencepb.ModelConfig, name, source string) *Output {
	o := &Output{name: name, source: source}
	if cfg.GetMaxBatchSize() > 0 {
		o.dims = append(o.dims, -1)
	}
	for _, out := range cfg.GetOutput() {
		if out.GetName() == name {
			dims := out.GetDims()
			if re := out.GetReshape(); re != nil {
				dims = re.GetShape()
			}
			o.dims = append(o.dims, dims...)
		}
	}
	return o
}

// Shape appends the shape of r's part to dst and returns its number of elements. Errors: InvalidArg if r lacks the
// source or has it with fewer dimensions.
func (o *Output) Shape(dst []int64, r *infer.Request) (shape []int64, elements int64, err error) {
	t, err := sourceOf(r, o.source, o.name)
	if err != nil {
		return dst, 0, err
	}
	at := len(dst)
	for i, d := range o.dims {
		if d < 0 {
			if i >= len(t.Shape) {
				return dst, 0, status.Errorf(status.InvalidArg,
					"output '%s' of model '%s' takes dimension %d from input '%s', which has the shape %s",
					o.name, r.ModelName, i, o.source, tensor.FormatShape(t.Shape))
			}
			d = t.Shape[i]
		}
		dst = append(dst, d)
	}
	elements, err = tensor.Elements(dst[at:])
	return dst, elements, err
}
