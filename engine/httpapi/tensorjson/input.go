package tensorjson

import (
	"math"

	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func (p *Parser) inputs() error {
	if p.s.Peek() != '[' {
		return unable("inputs", ErrNotArray)
	}
	return p.s.Array(p.input)
}

// input is what was read of one input.
type input struct {
	found      seen
	name       string
	dt         tensor.DataType
	shape      []int64
	deferred   int // where the data is, if it came before what is needed to read it
	data       []byte
	buf        *tensor.Buffer
	binarySize int64
	shared     shm.Range // if seenRegion is set
}

const (
	seenName seen = 1 << iota
	seenDatatype
	seenShape
	seenData
	seenParameters
	seenBinarySize
	seenRegion
)

func (p *Parser) input() error {
	if p.s.Peek() != '{' {
		return unable("inputs", ErrNotObject)
	}
	if len(p.r.Inputs) == maxTensors {
		return errTooMany("inputs")
	}
	in := input{binarySize: -1}
	if err := p.s.Object(func(key []byte) error { return p.inputMember(&in, key) }); err != nil {
		return err
	}
	switch {
	case in.found&seenName == 0:
		return missing("name")
	case in.found&seenShape == 0:
		return missing("shape")
	case in.found&seenDatatype == 0:
		return missing("datatype")
	case in.dt == tensor.Invalid:
		return status.New(status.InvalidArg, "invalid datatype for input "+in.name)
	}
	if err := p.inputData(&in); err != nil {
		return err
	}
	p.r.Inputs = append(p.r.Inputs, tensor.Tensor{
		Name: in.name, DataType: in.dt, Shape: in.shape, Data: in.data, Buf: in.buf,
	})
	p.binarySizes = append(p.binarySizes, in.binarySize)
	return nil
}

// inputData checks that an input's data has one source, and reads it unless that is done or it is behind the JSON part.
func (p *Parser) inputData(in *input) (err error) {
	switch sources := in.found & (seenData | seenBinarySize | seenRegion); sources {
	case seenBinarySize:
	case seenData:
		if in.deferred > 0 {
			after, depth := p.s.pos, p.s.depth
			p.s.pos = in.deferred
			err = p.data(in)
			p.s.pos, p.s.depth = after, depth
		}
	case seenRegion:
		if in.buf, err = p.Regions.Read(p.r, p.Pool, in.shared, in.dt, &p.shared); err == nil {
			p.r.Own(in.buf)
			in.data = in.buf.Bytes()
		}
	default:
		err = oneSource(sources)
	}
	return err
}

func oneSource(sources seen) error {
	what := " no field is set"
	if sources != 0 {
		what = " set"
		for _, f := range []struct {
			bit  seen
			name string
		}{{seenData, "data"}, {seenBinarySize, "binary_data_size"}, {seenRegion, sharedRegion}} {
			if sources&f.bit != 0 {
				what += " '" + f.name + "'"
			}
		}
	}
	return status.New(status.InvalidArg, "Input must set only one of the following fields: 'data', "+
		"'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But"+what)
}

func (p *Parser) inputMember(in *input, key []byte) (err error) {
	switch string(key) {
	case "name":
		if err = in.found.once(seenName, "name"); err == nil {
			in.name, err = p.text("name")
		}
	case "datatype":
		if err = in.found.once(seenDatatype, "datatype"); err == nil {
			var dt []byte
			dt, err = p.s.Text()
			in.dt, err = tensor.ParseDataType(dt), unable("datatype", err)
		}
	case "shape":
		if err = in.found.once(seenShape, "shape"); err == nil {
			err = p.inputShape(in)
		}
	case "data":
		if err = in.found.once(seenData, "data"); err != nil {
			return err
		}
		const needed = seenName | seenDatatype | seenShape
		if in.found&needed == needed && in.dt != tensor.Invalid {
			return p.data(in)
		}
		in.deferred = p.s.pos
		err = p.s.Skip()
	case "parameters":
		if err = in.found.once(seenParameters, "parameters"); err == nil {
			err = p.inputParameters(in)
		}
	default:
		err = p.s.Skip()
	}
	return err
}

func (p *Parser) inputParameters(in *input) error {
	if p.s.Peek() != '{' {
		return unable("parameters", ErrNotObject)
	}
	return p.s.Object(func(key []byte) (err error) {
		switch string(key) {
		case "binary_data_size":
			var size uint64
			if err = in.found.once(seenBinarySize, "binary_data_size"); err == nil {
				size, err = p.unsigned("binary_data_size")
				in.binarySize = int64(min(size, math.MaxInt64))
			}
		case sharedRegion, sharedOffset, sharedByteSize:
			var region bool
			if region, err = p.sharedParameter(key, &in.shared); region {
				in.found |= seenRegion
			}
		default:
			err = p.s.Skip()
		}
		return err
	})
}

// inputShape reads the shape of an input.
func (p *Parser) inputShape(in *input) error {
	if p.s.Peek() != '[' {
		return unable("shape", ErrNotArray)
	}
	p.shape = p.shape[:0]
	err := p.s.Array(func() error {
		d, err := p.unsigned("shape")
		if err == nil && d > math.MaxInt64 {
			err = status.New(status.InvalidArg, "Unable to parse 'shape': a dimension is over 2^63-1")
		}
		p.shape = append(p.shape, int64(d)) //nolint:gosec // checked, or there is an error
		if len(p.shape) > tensor.MaxDims {
			return status.Errorf(status.InvalidArg, "the request has more than %d dimensions in a shape",
				tensor.MaxDims)
		}
		return err
	})
	in.shape = p.r.Dims(len(p.shape))
	copy(in.shape, p.shape)
	return err
}

// data reads an input's data into new memory. Arrays may nest in any way: only the order and the number of the
// values count. Memory is bounded by the document, in which each value takes two bytes or more.
func (p *Parser) data(in *input) error {
	if p.s.Peek() != '[' {
		return unable("data", ErrNotArray)
	}
	if err := CheckInput(in.dt, in.name); err != nil {
		return err
	}
	n, err := tensor.Elements(in.shape)
	if err != nil {
		return status.Errorf(status.InvalidArg, "input '%s': %w", in.name, err)
	}
	left := int64(len(p.s.doc) - p.s.pos)
	if n > left/2 {
		return errDataShape()
	}
	if in.dt == tensor.Bytes {
		in.buf, err = p.strings(n, int(4*n+min(left, 32*n)))
	} else {
		in.buf, err = p.values(in.dt, n)
	}
	if err == nil {
		in.data = in.buf.Bytes()
	}
	return err
}

// values reads n values of a type into memory that the request owns.
func (p *Parser) values(dt tensor.DataType, n int64) (*tensor.Buffer, error) {
	buf, err := p.Pool.Try(int(n)*dt.Size(), 0)
	if err != nil {
		return nil, err
	}
	p.r.Own(buf)
	rest, err := p.s.Values(dt, buf.Bytes())
	if err == nil && len(rest) != 0 {
		err = errDataShape()
	}
	return buf, err
}

// strings reads n strings as BYTES elements into memory that the request owns. size is a guess of what they take.
func (p *Parser) strings(n int64, size int) (*tensor.Buffer, error) {
	var w Builder
	w.Start(p.Pool, size)
	count, err := p.s.Strings(&w)
	if err == nil && count != n {
		err = errDataShape()
	}
	if err != nil {
		w.Drop()
		return nil, err
	}
	buf := w.Finish()
	p.r.Own(buf)
	return buf, nil
}
