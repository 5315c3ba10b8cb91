package tensorjson

import (
	"math"

	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
)

func (p *Parser) outputs() error {
	if p.s.Peek() != '[' {
		return unable("outputs", ErrNotArray)
	}
	return p.s.Array(p.output)
}

const (
	seenOutputName seen = 1 << iota
	seenOutputParameters
	seenShared
	seenClassification
)

// output is what was read of one requested output.
type output struct {
	infer.RequestedOutput
	found seen
	place shm.Range // if seenShared is set
}

func (p *Parser) output() error {
	if p.s.Peek() != '{' {
		return unable("outputs", ErrNotObject)
	}
	if len(p.r.Outputs) == maxTensors {
		return errTooMany("outputs")
	}
	var out output
	err := p.s.Object(func(key []byte) (err error) {
		switch string(key) {
		case "name":
			if err = out.found.once(seenOutputName, "name"); err == nil {
				out.Name, err = p.text("name")
			}
		case "parameters":
			if err = out.found.once(seenOutputParameters, "parameters"); err == nil {
				err = p.outputParameters(&out)
			}
		default:
			err = p.s.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case out.found&seenOutputName == 0:
		return missing("name")
	case len(p.r.Outputs) > 0 && p.r.Wants(out.Name):
		return nil // of several with one name, the first counts
	case out.found&seenShared == 0:
	case out.found&seenClassification != 0:
		return status.New(status.InvalidArg, "Output can't set both 'shared_memory_region' and 'classification'")
	case out.Binary:
		return status.New(status.InvalidArg, "Output can't set both 'shared_memory_region' and 'binary_data'")
	default:
		if out.Shared, err = p.Regions.Slot(out.place); err != nil {
			return err
		}
	}
	p.r.Outputs = append(p.r.Outputs, out.RequestedOutput)
	return nil
}

func (p *Parser) outputParameters(out *output) error {
	if p.s.Peek() != '{' {
		return unable("parameters", ErrNotObject)
	}
	return p.s.Object(func(key []byte) (err error) {
		switch string(key) {
		case "binary_data":
			out.Binary, err = p.bool("binary_data")
		case "classification":
			out.found |= seenClassification
			k, kerr := p.s.Unsigned()
			if kerr != nil {
				return status.New(status.InvalidArg, "Unable to set 'classification': "+ErrNotUnsigned.Error())
			}
			out.Classification = uint32(min(k, math.MaxUint32))
		case sharedRegion, sharedOffset, sharedByteSize:
			var region bool
			if region, err = p.sharedParameter(key, &out.place); region {
				out.found |= seenShared
			}
		default:
			err = p.s.Skip()
		}
		return err
	})
}
