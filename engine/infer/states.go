package infer

import (
	"slices"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// StateSpec describes one implicit state of a sequence: an output of the model that is an input of the sequence's next
// request.
type StateSpec struct {
	Input, Output string
	DataType      tensor.DataType
	// Shape and Initial are the value for the first request of a sequence. Shape includes a batch dimension of 1 if the
	// model has one.
	Shape   []int64
	Initial []byte
}

// States are the implicit states of one sequence. The scheduler feeds them to a request, the backend sets them during
// Execute, and the scheduler feeds them to the next request. They are never used concurrently.
type States struct {
	specs  []StateSpec
	values []tensor.Tensor // each holds a reference on its buffer
}

// NewStates returns the initial states of a sequence.
func NewStates(specs []StateSpec) *States {
	s := &States{specs: specs, values: make([]tensor.Tensor, len(specs))}
	s.Reset()
	return s
}

// Reset restores the initial values.
func (s *States) Reset() {
	for i := range s.specs {
		v, p := &s.values[i], &s.specs[i]
		v.Release()
		v.Name, v.DataType, v.Data = p.Input, p.DataType, p.Initial
		v.Shape = append(v.Shape[:0], p.Shape...)
	}
}

// Release drops the values. The states must not be used after.
func (s *States) Release() {
	for i := range s.values {
		s.values[i].Release()
	}
}

// Feed adds the current values to r's inputs, with references that r holds. The execution of r sets the next values.
func (s *States) Feed(r *Request) {
	for i := range s.values {
		v := &s.values[i]
		in := *v
		in.Shape = r.Dims(len(v.Shape))
		copy(in.Shape, v.Shape)
		if in.Buf != nil {
			r.Own(in.Buf.Retain())
		}
		r.Inputs = append(r.Inputs, in)
	}
	r.States = s
}

// Set sets the sequence's next value of a state. It takes over the caller's reference on buf, also on an error. If buf
// is nil, the garbage collector owns data. The shape is copied. Errors: InvalidArg for an output that is no state, and
// for data of another type or size than the state has.
func (s *States) Set(output string, dt tensor.DataType, shape []int64, data []byte, buf *tensor.Buffer) error {
	i := slices.IndexFunc(s.specs, func(p StateSpec) bool { return p.Output == output })
	err := status.Errorf(status.InvalidArg, "state '%s' is not a valid state name.", output)
	if i >= 0 {
		err = s.specs[i].check(dt, shape, data)
	}
	if err != nil {
		if buf != nil {
			buf.Release()
		}
		return err
	}
	v := &s.values[i]
	v.Release()
	v.Shape = append(v.Shape[:0], shape...)
	v.Data, v.Buf = data, buf
	return nil
}

// check returns an error unless data is a value of the state.
func (p *StateSpec) check(dt tensor.DataType, shape []int64, data []byte) error {
	if dt != p.DataType {
		return status.Errorf(status.InvalidArg,
			"state '%s' has data-type '%s', the model configuration says '%s'", p.Output, dt, p.DataType)
	}
	size, err := tensor.ByteSize(dt, shape)
	if err == nil && size < 0 { // BYTES
		var n int64
		if n, err = tensor.Elements(shape); err == nil {
			err = tensor.CheckBytes(data, n)
		}
		size = int64(len(data))
	}
	switch {
	case err != nil:
		return status.Errorf(status.InvalidArg, "state '%s': %w", p.Output, err)
	case size != int64(len(data)):
		return status.Errorf(status.InvalidArg, "state '%s' has %d bytes for the shape %s of %s",
			p.Output, len(data), tensor.FormatShape(shape), dt)
	}
	return nil
}
