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
	// Slots is how many sequences an instance may have at once: the rows of a batch of the direct strategy, the candidates
	// of the oldest one. At least 1.
	Slots int
	// MaxBatchSize is the most rows in a batch. 0 or 1: every request runs alone.
	MaxBatchSize int
	// Batched says that tensors have a batch dimension.
	Batched bool
	// Idle is how long a sequence may have nothing to do before it is ended.
	Idle time.Duration
	// Iterative makes every request a sequence of its own, which is executed until the backend asks for no more.
	Iterative bool

	// Oldest is the strategy: batches of the requests that wait longest. Else it is direct: each sequence has its row.
	Oldest bool
	// MaxQueueDelay is how long the oldest request may wait: for a preferred batch size, or for MinimumUtilization.
	MaxQueueDelay time.Duration
	// MinimumUtilization is the part of the slots, from 0 to 1, whose requests a batch of the direct strategy waits for.
	MinimumUtilization float64
	// Preferred are the batch sizes of the oldest strategy that go at once. None: MaxBatchSize.
	Preferred []int
	// PreserveOrdering makes responses of the oldest strategy leave in the order in which their requests were taken.
	PreserveOrdering bool

	// Equal and SameInputs are as in Policy.
	Equal      []EqualInput
	SameInputs bool

	Controls []Control
	States   []infer.StateSpec
	// Shadowed are the inputs that clients may send although the batcher gives them: its own count.
	Shadowed []string
}

// ControlKind is what a control input tells the model.
type ControlKind uint8

// The kinds of controls.
const (
	ControlStart ControlKind = iota
	ControlEnd
	ControlReady
	ControlCorrelationID
)

// Control is an input that the batcher gives to every request.
type Control struct {
	Name     string
	Kind     ControlKind
	DataType tensor.DataType
	// False and True are the input's bytes, for all kinds but ControlCorrelationID.
	False, True []byte
}

func (p *SequencePolicy) alike() Policy { return Policy{Equal: p.Equal, SameInputs: p.SameInputs} }

// shape is that of every control input.
func (p *SequencePolicy) shape() []int64 {
	if p.Batched {
		return []int64{1, 1}
	}
	return []int64{1}
}

// wantsNumber reports whether the model is told the correlation ID as a number.
func (p *SequencePolicy) wantsNumber() (tensor.DataType, bool) {
	for i := range p.Controls {
		if c := &p.Controls[i]; c.Kind == ControlCorrelationID && c.DataType != tensor.Bytes {
			return c.DataType, true
		}
	}
	return 0, false
}

// correlation returns a correlation ID as bytes of a control input. Numbers are cut to the type's size; as a text a number
// is written in decimal.
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

// control appends the control inputs of a request of a sequence; r.Null: of an empty slot. corrid is what correlation
// returned.
func (s *Sequences) control(r *infer.Request, corrid []byte) {
	for i := range s.policy.Controls {
		c := &s.policy.Controls[i]
		on := false
		switch c.Kind {
		case ControlStart:
			on = r.Flags&infer.SequenceStart != 0
		case ControlEnd:
			on = r.Flags&infer.SequenceEnd != 0
		case ControlReady:
			on = !r.Null || !tellReady
		case ControlCorrelationID:
			r.Inputs = append(r.Inputs, tensor.Tensor{Name: c.Name, DataType: c.DataType, Shape: s.shape, Data: corrid})
			continue
		}
		data := c.False
		if on {
			data = c.True
		}
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: c.Name, DataType: c.DataType, Shape: s.shape, Data: data})
	}
}

// Dress gives a request that does not come through the batcher, as one for warmup, what it lacks of the inputs that those
// have which do: states as at the start, and controls as of a sequence of one request. Its rows are all given the same.
func (s *Sequences) AddControls(r *infer.Request) {
	if r.Correlation.IsZero() {
		r.Correlation.Number = 1
	}
	r.Flags |= infer.SequenceStart | infer.SequenceEnd
	full := infer.New()
	defer full.Release()
	full.Flags, full.Correlation = r.Flags, r.Correlation
	if len(s.policy.States) > 0 {
		infer.NewStates(s.policy.States).Feed(full)
	}
	var corrid []byte
	for i := range s.policy.Controls {
		if c := &s.policy.Controls[i]; c.Kind == ControlCorrelationID {
			corrid = correlation(r.Correlation, c.DataType)
		}
	}
	s.control(full, corrid)
	for i := range full.Inputs {
		in := full.Inputs[i]
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
