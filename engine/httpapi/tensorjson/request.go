package tensorjson

import (
	"math"
	"strconv"
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

// Parser fills inference requests. It may be used again for the next request.
type Parser struct {
	// Pool gives the memory of tensors. Required.
	Pool *tensor.Pool
	// Regions finds clients' shared memory. nil: there is none.
	Regions *shm.Registry

	s Scanner
	r *infer.Request

	// Of the KServe v2 form only.
	binaryOutput bool
	binarySizes  []int64 // for each input the number of bytes behind the JSON part, -1 for JSON data
	shape        []int64
	shared       shm.Quota
}

// Infer fills r from a request of the KServe v2 protocol: body is a JSON part of that many bytes, then the binary
// inputs in order. body must be in the memory of buf, and r must own buf: names and binary inputs are views of it.
//
// binaryOutput is the request's binary_data_output, the default for outputs that it does not list. After an error, r
// must be released. Errors: InvalidArg, or NotFound for a shared memory region.
func (p *Parser) Infer(r *infer.Request, buf *tensor.Buffer, body []byte, jsonLength int64) (binaryOutput bool,
	err error) {
	if err = p.parse(r, body[:jsonLength:jsonLength]); err == nil {
		err = p.takeBinary(r, buf, body[jsonLength:])
	}
	return p.binaryOutput, err
}

// parse reads the JSON part.
func (p *Parser) parse(r *infer.Request, doc []byte) error {
	p.r = r
	defer func() { p.r = nil }()
	p.binaryOutput, p.binarySizes, p.shared = false, p.binarySizes[:0], shm.Quota{}
	return p.s.Read(doc, p.inferRequest)
}

// takeBinary gives the bytes behind the JSON part to the inputs that ask for them.
func (p *Parser) takeBinary(r *infer.Request, buf *tensor.Buffer, tail []byte) error {
	for i, size := range p.binarySizes {
		if size < 0 {
			continue
		}
		in := &r.Inputs[i]
		if have := int64(len(tail)); size > have {
			return status.New(status.InvalidArg, "unexpected size for input '"+in.Name+"', expecting "+
				strconv.FormatInt(size-have, 10)+" additional bytes for model '"+r.ModelName+"'")
		}
		in.Data, in.Buf = tail[:size:size], buf
		tail = tail[size:]
	}
	if len(tail) > 0 {
		return status.New(status.InvalidArg, "unexpected additional input data for model '"+r.ModelName+"'")
	}
	return nil
}

// seen notes which members of an object were read.
type seen uint8

// once notes a member and refuses it the second time: which of the two is meant cannot be known.
func (s *seen) once(bit seen, member string) error {
	if *s&bit != 0 {
		return status.New(status.InvalidArg, "Unable to parse '"+member+"': the object has two members of this name")
	}
	*s |= bit
	return nil
}

const (
	seenID seen = 1 << iota
	seenRequestParameters
	seenInputs
	seenOutputs
)

func (p *Parser) inferRequest() error {
	if p.s.Peek() != '{' {
		return missing("inputs")
	}
	var found seen
	err := p.s.Object(func(key []byte) (err error) {
		switch string(key) {
		case "id":
			if err = found.once(seenID, "id"); err == nil {
				err = p.id()
			}
		case "parameters":
			if err = found.once(seenRequestParameters, "parameters"); err == nil {
				err = p.parameters()
			}
		case "inputs":
			if err = found.once(seenInputs, "inputs"); err == nil {
				err = p.inputs()
			}
		case "outputs":
			if err = found.once(seenOutputs, "outputs"); err == nil {
				err = p.outputs()
			}
		default:
			err = p.s.Skip()
		}
		return err
	})
	if err == nil && found&seenInputs == 0 {
		err = missing("inputs")
	}
	return err
}

// The next three read the value of a member that has one type.

func (p *Parser) text(member string) (string, error) {
	text, err := p.s.Text()
	return view(text), unable(member, err)
}

func (p *Parser) unsigned(member string) (uint64, error) {
	v, err := p.s.Unsigned()
	return v, unable(member, err)
}

func (p *Parser) bool(member string) (bool, error) {
	v, err := p.s.Bool()
	return v, unable(member, err)
}

func (p *Parser) id() (err error) {
	if p.r.ID, err = p.text("id"); err == nil {
		err = checkID(p.r.ID)
	}
	return err
}

// checkID refuses an id that cannot be repeated in a reply.
func checkID(id string) error {
	if !utf8.ValidString(id) || strings.IndexByte(id, 0) >= 0 {
		return status.New(status.InvalidArg, "Unable to parse 'id': it must be UTF-8 without NUL")
	}
	return nil
}

func (p *Parser) parameters() error {
	if p.s.Peek() != '{' {
		return status.New(status.InvalidArg, "failed to get request params.: "+ErrNoMembers.Error())
	}
	return p.s.Object(p.parameter)
}

func (p *Parser) parameter(key []byte) (err error) {
	switch string(key) {
	case "sequence_id":
		err = p.sequenceID()
	case "sequence_start":
		err = p.flag("sequence_start", infer.SequenceStart)
	case "sequence_end":
		err = p.flag("sequence_end", infer.SequenceEnd)
	case "priority":
		p.r.Priority, err = p.unsigned("priority")
	case "timeout":
		var us uint64
		us, err = p.unsigned("timeout")
		p.r.Timeout = time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
	case "binary_data_output":
		p.binaryOutput, err = p.bool("binary_data_output")
	default:
		if hasPrefix(key, "triton_") {
			return status.New(status.InvalidArg,
				"parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.")
		}
		err = p.modelParameter(key)
	}
	return err
}

func (p *Parser) sequenceID() error {
	if p.s.Peek() == '"' {
		id, err := p.s.Text()
		p.r.Correlation = infer.CorrelationID{Text: view(id)}
		if err == nil {
			err = p.r.Correlation.Check()
		}
		return err
	}
	id, err := p.s.Unsigned()
	if err != nil {
		return unable("sequence_id", ErrNotString)
	}
	p.r.Correlation = infer.CorrelationID{Number: id}
	return nil
}

func (p *Parser) flag(member string, f infer.Flags) error {
	on, err := p.bool(member)
	if p.r.Flags &^= f; on {
		p.r.Flags |= f
	}
	return err
}

// modelParameter reads a parameter for the model: a string, a boolean or a number.
func (p *Parser) modelParameter(key []byte) (err error) {
	q := infer.Parameter{Name: view(key)}
	switch p.s.Peek() {
	case '"':
		var text []byte
		text, err = p.s.Text()
		q.Kind, q.Text = infer.StringParameter, view(text)
	case 't', 'f':
		if q.Bool, err = p.s.Bool(); err != nil {
			return p.s.notValue()
		}
		q.Kind = infer.BoolParameter
	default:
		var n number
		if n, err = p.s.number(); err != nil {
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
	return err
}

func errTooMany(member string) error {
	return status.New(status.InvalidArg, "Unable to parse '"+member+"': more than 4096 of them")
}

// Names of the parameters that place a tensor in shared memory.
const (
	sharedRegion   = "shared_memory_region"
	sharedOffset   = "shared_memory_offset"
	sharedByteSize = "shared_memory_byte_size"
)

// sharedParameter reads one of the parameters that place a tensor in shared memory. region reports whether it is the
// one that puts it there. As in Triton, the last of several counts, and the others mean nothing without a region.
func (p *Parser) sharedParameter(key []byte, at *shm.Range) (region bool, err error) {
	switch string(key) {
	case sharedOffset:
		at.Offset, err = p.unsigned(sharedOffset)
	case sharedByteSize:
		at.Size, err = p.unsigned(sharedByteSize)
	default:
		at.Region, err = p.text(sharedRegion)
		region = true
	}
	return region, err
}
