package infer

import (
	"slices"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// StateSpec describes one implicit state of a sequence: what the model gives as an output is the input of the sequence's
// next request.
type StateSpec struct {
	Input, Output string
	DataType      tensor.DataType
	// Shape and Initial are what the first request of a sequence gets: Elements(Shape) elements, with the batch dimension
	// of 1 if the model has one.
	Shape   []int64
	Initial []byte
}

// States are the implicit states of one sequence. The scheduler feeds them to a request, the backend sets them during
// Execute, and the scheduler feeds them to the next: never two at once.
type States struct {
	specs  []StateSpec
	values []tensor.Tensor // each holds a reference on its buffer
}

// NewStates returns the states of a sequence that has not begun.
func NewStates(specs []StateSpec) *States {
	s := &States{specs: specs, values: make([]tensor.Tensor, len(specs))}
	s.Reset()
	return s
}

// Reset brings the initial values back.
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

// Feed gives r the present values as inputs, which it holds as long as it lives, and lets its execution set the next.
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

// Set makes a value the sequence's next one and takes over the caller's reference on buf (nil: data is the garbage
// collector's), also on an error. The shape is copied. Errors: InvalidArg for an output that is no state, for data that is
// not of the state's type or does not fit the shape.
func (s *States) Set(output string, dt tensor.DataType, shape []int64, data []byte, buf *tensor.Buffer) error {
	i := slices.IndexFunc(s.specs, func(p StateSpec) bool { return p.Output == output })
	err := error(nil)
	if i < 0 {
		err = status.Errorf(status.InvalidArg, "state '%s' is not a valid state name.", output)
	} else {
		err = s.fits(i, dt, shape, data)
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

func (s *States) fits(i int, dt tensor.DataType, shape []int64, data []byte) error {
	if want := s.specs[i].DataType; dt != want {
		return status.Errorf(status.InvalidArg, "state '%s' has data-type '%s', the model configuration says '%s'", s.specs[i].Output, dt, want)
	}
	size, err := tensor.ByteSize(dt, shape)
	if err != nil {
		return status.Errorf(status.InvalidArg, "state '%s': %w", s.specs[i].Output, err)
	}
	if size < 0 {
		n, err := tensor.Elements(shape)
		if err == nil {
			err = tensor.CheckBytes(data, n)
		}
		if err != nil {
			return status.Errorf(status.InvalidArg, "state '%s': %w", s.specs[i].Output, err)
		}
		return nil
	}
	if size != int64(len(data)) {
		return status.Errorf(status.InvalidArg, "state '%s' has %d bytes for the shape %s of %s", s.specs[i].Output, len(data), tensor.FormatShape(shape), dt)
	}
	return nil
}
