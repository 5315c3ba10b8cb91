package sched

import (
	"bytes"
	"slices"
	"time"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// Policy says how requests are queued and joined, in the terms of dynamic_batching in model_config.proto.
type Policy struct {
	// MaxBatchSize is the most rows in a batch. 0 or 1: every request runs alone.
	MaxBatchSize int
	// Preferred are the batch sizes that go at once, in rows. None: MaxBatchSize.
	Preferred []int
	// MaxQueueDelay is how long the oldest request may wait for a batch to become preferred or full. 0: not at all.
	MaxQueueDelay time.Duration
	// CoresBusy is for instances alike that compute on the same cores: whether those cores have no time to spare now. It
	// is asked under the scheduler's lock and must be brief. nil: the instances do not take time from each other.
	CoresBusy func() bool
	// PreserveOrdering makes responses leave in the order in which their requests were taken from the queue.
	PreserveOrdering bool

	// Levels is the number of priority levels; level 1 goes first. 0: one queue, priorities do not count.
	Levels int
	// DefaultLevel is the level of requests with priority 0 or above Levels.
	DefaultLevel int
	// Queue is the policy of every level without one of its own in LevelQueue.
	Queue      QueuePolicy
	LevelQueue map[int]QueuePolicy

	// Equal are the inputs that must have the same shape, but for the first dimension, in all requests of a batch.
	Equal []EqualInput
	// SameInputs keeps requests apart that do not have the same inputs, as models with optional inputs need it.
	SameInputs bool
}

// QueuePolicy is ModelQueuePolicy of model_config.proto.
type QueuePolicy struct {
	// Delay moves a request whose timeout has expired behind those of its level that have not; else it is refused.
	Delay bool
	// Timeout is how long a request may wait; 0: without limit.
	Timeout time.Duration
	// AllowOverride lets a request's own timeout count if it is shorter.
	AllowOverride bool
	// MaxSize is how many requests may wait; 0: without limit.
	MaxSize int
}

// EqualInput is an input that must agree within a batch.
type EqualInput struct {
	Name string
	// Values says that the bytes must agree too, as those of shape tensors.
	Values bool
}

// timeout returns how long r may wait; 0: without limit.
func (p *QueuePolicy) timeout(r *infer.Request) time.Duration {
	if p.AllowOverride && r.Timeout > 0 && r.Timeout < p.Timeout {
		return r.Timeout
	}
	return p.Timeout
}

// alike reports whether two requests may share a batch.
func (p *Policy) alike(a, b *infer.Request) bool {
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

// input finds a request's input, which is likely at place i.
func input(r *infer.Request, i int, name string) *tensor.Tensor {
	if i < len(r.Inputs) && r.Inputs[i].Name == name {
		return &r.Inputs[i]
	}
	return r.Input(name)
}
