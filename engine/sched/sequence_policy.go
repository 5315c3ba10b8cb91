package sched

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// SequencePolicy says how sequences are batched, in the terms of sequence_batching in model_config.proto.
type SequencePolicy struct {
	// Slots is how many sequences an instance may have at once: the rows of a batch of the direct strategy, the
	// candidates of the oldest one. At least 1.
	Slots int
	// MaxBatchSize is the most rows in a batch. 0 or 1: every request is executed alone.
	MaxBatchSize int
	// Batched says that tensors have a batch dimension.
	Batched bool
	// Idle is how long a sequence may be idle before it is ended.
	Idle time.Duration
	// Iterative makes every request a sequence, which is executed until the backend does not reschedule it.
	Iterative bool

	// Oldest selects the oldest strategy: batches of the requests that have waited longest. Else the strategy is
	// direct: each sequence has its row.
	Oldest bool
	// MaxQueueDelay is how long the oldest request may wait for a preferred batch size, or for MinimumUtilization.
	MaxQueueDelay time.Duration
	// MinimumUtilization is the part of the slots, from 0 to 1, whose requests a batch of the direct strategy waits
	// for.
	MinimumUtilization float64
	// Preferred are the preferred batch sizes of the oldest strategy. None: MaxBatchSize.
	Preferred []int
	// PreserveOrdering returns responses of the oldest strategy in the order in which their requests were taken.
	PreserveOrdering bool

	Compatibility

	Controls []Control
	States   []infer.StateSpec
	// Shadowed are the inputs that clients may send although the batcher provides them. The client's are ignored.
	Shadowed []string
}

// ControlKind says what a control input contains.
type ControlKind uint8

// The kinds of controls.
const (
	ControlStart ControlKind = iota
	ControlEnd
	ControlReady
	ControlCorrelationID
)

// Control is an input that the batcher adds to every request.
type Control struct {
	Name     string
	Kind     ControlKind
	DataType tensor.DataType
	// False and True are the input's bytes, for all kinds but ControlCorrelationID.
	False, True []byte
}

// controlShape returns the shape of every control input.
func (p *SequencePolicy) controlShape() []int64 {
	if p.Batched {
		return []int64{1, 1}
	}
	return []int64{1}
}

// correlationType returns the data type of the control input with the correlation ID, Invalid if there is none.
func (p *SequencePolicy) correlationType() tensor.DataType {
	for i := range p.Controls {
		if c := &p.Controls[i]; c.Kind == ControlCorrelationID {
			return c.DataType
		}
	}
	return tensor.Invalid
}

// correlation returns a correlation ID as the bytes of a control input, nil for the type Invalid. Numbers are
// truncated to the type's size. As a string, a number is written in decimal.
func correlation(id infer.CorrelationID, dt tensor.DataType) []byte {
	if dt == tensor.Bytes {
		text := id.Text
		if text == "" && id.Number != 0 {
			text = strconv.FormatUint(id.Number, 10)
		}
		return tensor.AppendBytesElement(nil, text)
	}
	b := binary.LittleEndian.AppendUint64(nil, id.Number)
	return b[:dt.Size():dt.Size()]
}

// addControls appends the control inputs to a request, which may stand for an empty slot (r.Null).
func (s *Sequences) addControls(r *infer.Request, correlation []byte) {
	for i := range s.policy.Controls {
		c := &s.policy.Controls[i]
		on := false
		switch c.Kind {
		case ControlStart:
			on = r.Flags&infer.SequenceStart != 0
		case ControlEnd:
			on = r.Flags&infer.SequenceEnd != 0
		case ControlReady:
			on = !r.Null
		}
		data := c.False
		if on {
			data = c.True
		} else if c.Kind == ControlCorrelationID {
			data = correlation
		}
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: c.Name, DataType: c.DataType, Shape: s.shape, Data: data})
	}
}

// AddControls adds the inputs that the batcher provides to a request that does not come through the batcher, such as a
// warmup request. States have their initial values, and controls are those of a sequence of one request. All rows of r
// get the same values. Inputs that r already has stay.
func (s *Sequences) AddControls(r *infer.Request) {
	if r.Correlation.IsZero() {
		r.Correlation.Number = 1
	}
	r.Flags |= infer.SequenceStart | infer.SequenceEnd
	full := infer.New()
	defer full.Release()
	full.Flags = r.Flags
	if len(s.policy.States) > 0 {
		infer.NewStates(s.policy.States).Feed(full)
	}
	s.addControls(full, correlation(r.Correlation, s.correlationType))
	for _, in := range full.Inputs {
		if r.Input(in.Name) != nil {
			continue
		}
		in.Shape = slices.Clone(in.Shape)
		if s.policy.Batched {
			in.Shape[0] = int64(r.BatchSize)
			in.Data = bytes.Repeat(in.Data, r.BatchSize)
		}
		r.Inputs = append(r.Inputs, in)
	}
}
