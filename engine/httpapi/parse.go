package httpapi

import (
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// maxTensors bounds the inputs and the outputs that one request may list.
const maxTensors = 4096

// requestParser reads the JSON part of an inference request in one pass, tensor data straight into typed bytes.
// It is reused; after parse its fields describe the last request.
type requestParser struct {
	scanner
	pool    *tensor.Pool
	regions *shm.Registry // where clients' shared memory is found
	r       *infer.Request

	// binaryOutput is the request's binary_data_output. As in Triton it counts only where no output is listed; listed
	// outputs follow their own binary_data.
	binaryOutput bool
	// binarySizes holds per input the bytes that it takes from behind the JSON part, -1 for JSON data.
	binarySizes []int64
	shape       []int64
	budget      shm.Budget
}

// parse fills r from doc, whose memory r must own: names are views of it. An error is the client's fault (InvalidArg),
// or NotFound for a shared memory region; r must then be released. A fault of the document's form is reported before
// one of its meaning.
func (p *requestParser) parse(r *infer.Request, doc []byte) error {
	p.scanner = scanner{b: doc}
	p.r = r
	p.binaryOutput = false
	p.binarySizes = p.binarySizes[:0]
	p.budget = shm.Budget{}
	err := p.top()
	p.done()
	if err == nil {
		return nil
	}
	var syntax syntaxError
	if errors.As(err, &syntax) {
		return syntax.error
	}
	if err2 := checkSyntax(doc); errors.As(err2, &syntax) {
		return syntax.error
	}
	return err
}

// done lets go of the request and of its document, which the parser would hold until the connection's next request.
func (p *requestParser) done() {
	p.r, p.scanner = nil, scanner{}
}

const (
	nonString   = "attempt to access JSON non-string as string"
	nonBoolean  = "attempt to access JSON non-boolean as boolean"
	nonArray    = "attempt to access JSON non-array as array"
	nonObject   = "attempt to access JSON non-object as object"
	noMembers   = "attempt to get members for non-object"
	nonSigned   = "attempt to access JSON non-signed-integer as signed-integer"
	nonUnsigned = "attempt to access JSON non-unsigned-integer as unsigned-integer"
	nonNumber   = "attempt to access JSON non-number as double"
)

// unable is a fault of meaning in a member.
func unable(member, what string) error {
	return status.New(status.InvalidArg, "Unable to parse '"+member+"': "+what)
}

func missing(member string) error {
	return unable(member, "attempt to access non-existing object member '"+member+"'")
}

// once notes that a member was seen and refuses it the second time: which of the two is meant cannot be known.
func once(seen *uint8, bit uint8, member string) error {
	if *seen&bit != 0 {
		return unable(member, "the object has two members of this name")
	}
	*seen |= bit
	return nil
}

func (p *requestParser) top() error {
	p.byteOrderMark()
	if p.space() == 0 {
		return p.fail(errEmpty, p.i)
	}
	if p.peek() != '{' {
		if err := p.skip(); err != nil {
			return err
		}
		if err := p.end(); err != nil {
			return err
		}
		return missing("inputs")
	}
	const (
		seenID = 1 << iota
		seenParameters
		seenInputs
		seenOutputs
	)
	seen := uint8(0)
	for first := true; ; first = false {
		key, more, err := p.member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch string(key) {
		case "id":
			if err = once(&seen, seenID, "id"); err == nil {
				err = p.id()
			}
		case "parameters":
			if err = once(&seen, seenParameters, "parameters"); err == nil {
				err = p.parameters()
			}
		case "inputs":
			if err = once(&seen, seenInputs, "inputs"); err == nil {
				err = p.inputs()
			}
		case "outputs":
			if err = once(&seen, seenOutputs, "outputs"); err == nil {
				err = p.outputs()
			}
		default:
			err = p.skip()
		}
		if err != nil {
			return err
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	if seen&seenInputs == 0 {
		return missing("inputs")
	}
	return nil
}

// string reads the value of a member that must be a string.
func (p *requestParser) string(member string) ([]byte, error) {
	if p.peek() != '"' {
		return nil, unable(member, nonString)
	}
	return p.text()
}

func (p *requestParser) unsigned(member string) (uint64, error) {
	n, err := p.number()
	if err != nil {
		return 0, err
	}
	v, ok := n.unsigned()
	if !ok {
		return 0, unable(member, nonUnsigned)
	}
	return v, nil
}

func (p *requestParser) bool(member string) (bool, error) {
	v, ok := p.boolean()
	if !ok {
		return false, unable(member, nonBoolean)
	}
	return v, nil
}

func (p *requestParser) id() error {
	id, err := p.string("id")
	if err != nil {
		return err
	}
	if !validID(view(id)) {
		return unable("id", "it must be UTF-8 without NUL")
	}
	p.r.ID = view(id)
	return nil
}

// validID reports whether an id can be repeated in a reply.
func validID(id string) bool { return utf8.ValidString(id) && strings.IndexByte(id, 0) < 0 }

func (p *requestParser) parameters() error {
	if p.peek() != '{' {
		return status.New(status.InvalidArg, "failed to get request params.: "+noMembers)
	}
	for first := true; ; first = false {
		key, more, err := p.member(first)
		if err != nil || !more {
			return err
		}
		if err := p.parameter(key); err != nil {
			return err
		}
	}
}

func (p *requestParser) parameter(key []byte) error {
	r := p.r
	var err error
	switch string(key) {
	case "sequence_id":
		err = p.sequenceID()
	case "sequence_start":
		err = p.flag("sequence_start", infer.SequenceStart)
	case "sequence_end":
		err = p.flag("sequence_end", infer.SequenceEnd)
	case "priority":
		r.Priority, err = p.unsigned("priority")
	case "timeout":
		var us uint64
		us, err = p.unsigned("timeout")
		r.Timeout = time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
	case "binary_data_output":
		p.binaryOutput, err = p.bool("binary_data_output")
	default:
		err = p.custom(key)
	}
	return err
}

func (p *requestParser) sequenceID() error {
	if p.peek() == '"' {
		id, err := p.text()
		p.r.Correlation = infer.CorrelationID{Text: view(id)}
		if err == nil {
			err = p.r.Correlation.Check()
		}
		return err
	}
	n, err := p.number()
	if err != nil {
		return err
	}
	id, ok := n.unsigned()
	if !ok {
		return unable("sequence_id", nonString)
	}
	p.r.Correlation = infer.CorrelationID{Number: id}
	return nil
}

func (p *requestParser) flag(member string, f infer.Flags) error {
	on, err := p.bool(member)
	if p.r.Flags &^= f; on {
		p.r.Flags |= f
	}
	return err
}

// custom reads a parameter that is the model's own.
func (p *requestParser) custom(key []byte) error {
	if hasPrefix(key, "triton_") {
		return status.New(status.InvalidArg,
			"parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.")
	}
	return p.ownParameter(key)
}

// ownParameter reads a value that is the model's own: a string, a boolean or a number.
func (p *requestParser) ownParameter(key []byte) error {
	q := infer.Parameter{Name: view(key)}
	switch p.peek() {
	case '"':
		text, err := p.text()
		if err != nil {
			return err
		}
		q.Kind, q.Text = infer.StringParameter, view(text)
	case 't', 'f':
		v, ok := p.boolean()
		if !ok {
			return p.notValue()
		}
		q.Kind, q.Bool = infer.BoolParameter, v
	default:
		n, err := p.number()
		if err != nil {
			return err
		}
		if n.kind == notNumber {
			return status.New(status.InvalidArg, "parameter '"+string(key)+
				"' has invalid type. It should be either 'int', 'bool', or 'string'.")
		}
		if v, ok := n.signed(); ok {
			q.Kind, q.Int = infer.IntParameter, v
		} else {
			q.Kind, q.Float = infer.FloatParameter, n.float()
		}
	}
	p.r.Parameters = append(p.r.Parameters, q)
	return nil
}

func (p *requestParser) inputs() error {
	if p.peek() != '[' {
		return unable("inputs", nonArray)
	}
	for first := true; ; first = false {
		more, err := p.element(first)
		if err != nil || !more {
			return err
		}
		if p.peek() != '{' {
			return unable("inputs", nonObject)
		}
		if len(p.r.Inputs) == maxTensors {
			return unable("inputs", "more than 4096 of them")
		}
		if err := p.input(); err != nil {
			return err
		}
	}
}

// inputFields is what was read of one input.
type inputFields struct {
	seen       uint8
	name       []byte
	dt         tensor.DataType
	shape      []int64
	deferred   int // where data stands that came before what is needed to read it
	data       []byte
	buf        *tensor.Buffer
	binarySize int64
	shared     shm.Range // where seenRegion is set
}

const (
	seenName uint8 = 1 << iota
	seenDatatype
	seenShape
	seenData
	seenInputParameters
	seenBinarySize
	seenRegion
)

// seen flags of an output's parameters.
const (
	seenShared uint8 = 1 << iota
	seenClassification
)

func (p *requestParser) input() error {
	f := inputFields{binarySize: -1}
	for first := true; ; first = false {
		key, more, err := p.member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := p.inputMember(&f, key); err != nil {
			return err
		}
	}
	switch {
	case f.seen&seenName == 0:
		return missing("name")
	case f.seen&seenShape == 0:
		return missing("shape")
	case f.seen&seenDatatype == 0:
		return missing("datatype")
	case f.dt == tensor.Invalid:
		return status.New(status.InvalidArg, "invalid datatype for input "+string(f.name))
	}
	switch sources := f.seen & (seenData | seenBinarySize | seenRegion); sources {
	case seenData, seenBinarySize:
	case seenRegion:
		if err := p.readShared(&f); err != nil {
			return err
		}
	default:
		return oneSource(sources)
	}
	if f.deferred > 0 {
		after, depth := p.i, p.depth
		p.i = f.deferred
		if err := p.data(&f); err != nil {
			return err
		}
		p.i, p.depth = after, depth
	}
	p.r.Inputs = append(p.r.Inputs, tensor.Tensor{
		Name: view(f.name), DataType: f.dt, Shape: f.shape, Data: f.data, Buf: f.buf,
	})
	p.binarySizes = append(p.binarySizes, f.binarySize)
	return nil
}

func oneSource(sources uint8) error {
	what := " no field is set"
	if sources != 0 {
		what = " set"
		for _, f := range []struct {
			bit  uint8
			name string
		}{{seenData, "data"}, {seenBinarySize, "binary_data_size"}, {seenRegion, "shared_memory_region"}} {
			if sources&f.bit != 0 {
				what += " '" + f.name + "'"
			}
		}
	}
	return status.New(status.InvalidArg, "Input must set only one of the following fields: 'data', "+
		"'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But"+what)
}

// readShared reads an input's data out of shared memory.
func (p *requestParser) readShared(f *inputFields) error {
	buf, err := p.regions.Read(p.r, p.pool, f.shared, f.dt, &p.budget)
	if err != nil {
		return err
	}
	p.r.Own(buf)
	f.data, f.buf = buf.Bytes(), buf
	return nil
}

// sharedParameter reads one of the parameters that say where a tensor lies in shared memory; region tells whether it is
// the one that puts it there. As in Triton the last of several stands, and those without a region mean nothing.
func (p *requestParser) sharedParameter(key []byte, at *shm.Range) (region bool, err error) {
	switch string(key) {
	case "shared_memory_offset":
		at.Offset, err = p.unsigned("shared_memory_offset")
	case "shared_memory_byte_size":
		at.Size, err = p.unsigned("shared_memory_byte_size")
	default:
		var name []byte
		name, err = p.string("shared_memory_region")
		at.Region, region = view(name), true
	}
	return region, err
}

func (p *requestParser) inputMember(f *inputFields, key []byte) (err error) {
	switch string(key) {
	case "name":
		if err = once(&f.seen, seenName, "name"); err == nil {
			f.name, err = p.string("name")
		}
	case "datatype":
		if err = once(&f.seen, seenDatatype, "datatype"); err == nil {
			var dt []byte
			dt, err = p.string("datatype")
			f.dt = tensor.ParseDataType(dt)
		}
	case "shape":
		if err = once(&f.seen, seenShape, "shape"); err == nil {
			err = p.readShape(f)
		}
	case "data":
		if err = once(&f.seen, seenData, "data"); err != nil {
			return err
		}
		const needed = seenName | seenDatatype | seenShape
		if f.seen&needed == needed && f.dt != tensor.Invalid {
			return p.data(f)
		}
		f.deferred = p.i
		err = p.skip()
	case "parameters":
		if err = once(&f.seen, seenInputParameters, "parameters"); err == nil {
			err = p.inputParameters(f)
		}
	default:
		err = p.skip()
	}
	return err
}

func (p *requestParser) inputParameters(f *inputFields) error {
	if p.peek() != '{' {
		return unable("parameters", nonObject)
	}
	for first := true; ; first = false {
		key, more, err := p.member(first)
		if err != nil || !more {
			return err
		}
		switch string(key) {
		case "binary_data_size":
			var size uint64
			if err = once(&f.seen, seenBinarySize, "binary_data_size"); err != nil {
				return err
			}
			size, err = p.unsigned("binary_data_size")
			f.binarySize = int64(min(size, math.MaxInt64))
		case "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size":
			var region bool
			if region, err = p.sharedParameter(key, &f.shared); region {
				f.seen |= seenRegion
			}
		default:
			err = p.skip()
		}
		if err != nil {
			return err
		}
	}
}

func (p *requestParser) readShape(f *inputFields) error {
	if p.peek() != '[' {
		return unable("shape", nonArray)
	}
	shape := p.shape[:0]
	for first := true; ; first = false {
		more, err := p.element(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		d, err := p.unsigned("shape")
		if err != nil {
			return err
		}
		if d > math.MaxInt64 {
			return unable("shape", "a dimension is over 2^63-1")
		}
		shape = append(shape, int64(d))
	}
	p.shape = shape
	f.shape = p.r.Dims(len(shape))
	copy(f.shape, shape)
	return nil
}
