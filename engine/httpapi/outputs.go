package httpapi

import (
	"errors"
	"math"

	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
)

func (p *requestParser) outputs() error {
	if p.peek() != '[' {
		return unable("outputs", nonArray)
	}
	for first := true; ; first = false {
		more, err := p.element(first)
		if err != nil || !more {
			return err
		}
		if p.peek() != '{' {
			return unable("outputs", nonObject)
		}
		if len(p.r.Outputs) == maxTensors {
			return unable("outputs", "more than 4096 of them")
		}
		if err := p.output(); err != nil {
			return err
		}
	}
}

func (p *requestParser) output() error {
	out, seen := infer.RequestedOutput{}, uint8(0)
	var place outputPlace
	for first := true; ; first = false {
		key, more, err := p.member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch string(key) {
		case "name":
			if err = once(&seen, seenName, "name"); err != nil {
				return err
			}
			var name []byte
			name, err = p.string("name")
			out.Name = view(name)
		case "parameters":
			if err = once(&seen, seenInputParameters, "parameters"); err != nil {
				return err
			}
			err = p.outputParameters(&out, &place)
		default:
			err = p.skip()
		}
		if err != nil {
			return err
		}
	}
	if seen&seenName == 0 {
		return missing("name")
	}
	if len(p.r.Outputs) > 0 && p.r.Wants(out.Name) {
		return nil // named twice: the first stands
	}
	if place.seen&seenShared != 0 {
		if err := p.takeSlot(&out, &place); err != nil {
			return err
		}
	}
	p.r.Outputs = append(p.r.Outputs, out)
	return nil
}

// outputPlace is what was read of where an output is to go.
type outputPlace struct {
	seen   uint8
	shared shm.Range // where seenShared is set
}

// takeSlot gives an output its place in shared memory.
func (p *requestParser) takeSlot(out *infer.RequestedOutput, place *outputPlace) (err error) {
	switch {
	case place.seen&seenClassification != 0:
		return status.New(status.InvalidArg, "Output can't set both 'shared_memory_region' and 'classification'")
	case out.Binary:
		return status.New(status.InvalidArg, "Output can't set both 'shared_memory_region' and 'binary_data'")
	}
	out.Shared, err = p.regions.Slot(place.shared)
	return err
}

func (p *requestParser) outputParameters(out *infer.RequestedOutput, place *outputPlace) error {
	if p.peek() != '{' {
		return unable("parameters", nonObject)
	}
	for first := true; ; first = false {
		key, more, err := p.member(first)
		if err != nil || !more {
			return err
		}
		switch string(key) {
		case "binary_data":
			out.Binary, err = p.bool("binary_data")
		case "classification":
			var k uint64
			place.seen |= seenClassification
			if k, err = p.unsigned("classification"); status.CodeOf(err) == status.InvalidArg && !errors.As(err, new(syntaxError)) {
				err = status.New(status.InvalidArg, "Unable to set 'classification': "+nonUnsigned)
			}
			out.Classification = uint32(min(k, math.MaxUint32))
		case "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size":
			var region bool
			if region, err = p.sharedParameter(key, &place.shared); region {
				place.seen |= seenShared
			}
		default:
			err = p.skip()
		}
		if err != nil {
			return err
		}
	}
}
