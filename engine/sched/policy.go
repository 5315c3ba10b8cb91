package sched

import (
	"bytes"
	"slices"
	"time"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// Policy says how requests are queued and batched, in the terms of dynamic_batching in model_config.proto.
type Policy struct {
	// MaxBatchSize is the most rows in a batch. 0 or 1: every request is executed alone.
	MaxBatchSize int
	// Preferred are the preferred batch sizes in rows, which are executed at once. None: MaxBatchSize.
	Preferred []int
	// MaxQueueDelay is how long the oldest request may wait for a preferred or full batch. 0: not at all.
	MaxQueueDelay time.Duration
	// CoresBusy is set for instances that compute on the same cores. It reports whether those cores are all busy. It is
	// called under the scheduler's lock and must not block. nil: the instances do not share cores.
	CoresBusy func() bool
	// PreserveOrdering returns responses in the order in which their requests came. It needs one level without Delay.
	PreserveOrdering bool

	// Levels is the number of priority levels; level 1 comes first. 0: one queue without priorities.
	Levels int
	// DefaultLevel is the level of requests with priority 0 or above Levels.
	DefaultLevel int
	// Queue is the policy of the levels that LevelQueue does not list.
	Queue      QueuePolicy
	LevelQueue map[int]QueuePolicy

	Compatibility
	// Strategy is asked about each request that may join a batch. nil: there is none. A scheduler without batches does
	// not ask it.
	Strategy Strategy
}

// QueuePolicy is ModelQueuePolicy of model_config.proto.
type QueuePolicy struct {
	// Delay moves a request whose timeout has expired behind the others of its level. Else it is rejected.
	Delay bool
	// Timeout is how long a request may wait. 0: without limit.
	Timeout time.Duration
	// AllowOverride lets a request's own timeout count if it is shorter.
	AllowOverride bool
	// MaxSize is how many requests may wait. 0: without limit.
	MaxSize int
}

// timeout returns how long r may wait. 0: without limit.
func (p *QueuePolicy) timeout(r *infer.Request) time.Duration {
	if p.AllowOverride && r.Timeout > 0 {
		return min(p.Timeout, r.Timeout)
	}
	return p.Timeout
}

// deadline returns until when r may wait. 0: without limit.
func (p *QueuePolicy) deadline(r *infer.Request) infer.Stamp {
	timeout := p.timeout(r)
	if timeout == 0 || timeout > endless {
		return 0
	}
	return r.Times.Queued + infer.Stamp(timeout)
}

// Compatibility says which requests may share a batch.
type Compatibility struct {
	// Equal are the inputs whose shape, except for the first dimension, must be the same in all requests of a batch.
	Equal []EqualInput
	// SameInputs requires all requests of a batch to have the same inputs, as for models with optional inputs.
	SameInputs bool
}

// EqualInput is an input that must agree within a batch.
type EqualInput struct {
	Name string
	// Values says that the bytes must agree too, as those of shape tensors.
	Values bool
}

// alike reports whether two requests may share a batch.
func (p *Compatibility) alike(a, b *infer.Request) bool {
	if p.SameInputs {
		if len(a.Inputs) != len(b.Inputs) {
			return false
		}
		for i := range a.Inputs {
			if input(b, i, a.Inputs[i].Name) == nil {
				return false
			}
		}
	}
	for i := range p.Equal {
		e := &p.Equal[i]
		x, y := input(a, i, e.Name), input(b, i, e.Name)
		if x == nil || y == nil {
			if x != y {
				return false
			}
			continue
		}
		if len(x.Shape) == 0 || len(x.Shape) != len(y.Shape) || !slices.Equal(x.Shape[1:], y.Shape[1:]) ||
			e.Values && !bytes.Equal(x.Data, y.Data) {
			return false
		}
	}
	return true
}

// input finds a request's input. It looks at index i first.
func input(r *infer.Request, i int, name string) *tensor.Tensor {
	if i < len(r.Inputs) && r.Inputs[i].Name == name {
		return &r.Inputs[i]
	}
	return r.Input(name)
}
