package sched

import (
	"context"
	"errors"

	"nereid/engine/infer"
)

// ErrClosed is what Next returns when the scheduler is closed and nothing waits any more.
var ErrClosed = errors.New("scheduler is closed")

// Scheduler admits requests.
type Scheduler interface {
	// Enqueue admits r. On nil the scheduler has taken a reference on r and passes it on with the batch; on an error
	// the request is still the caller's alone. Never blocks. Safe for concurrent use. Errors: Unavailable when closed.
	Enqueue(r *infer.Request) error
	// Close admits no more; what waits still runs.
	Close()
}

// Batcher is a Scheduler whose batches are pulled by free instances.
type Batcher interface {
	Scheduler
	// Next waits until a batch is due for an instance and returns it; the caller then owns the batch and one reference
	// on each of its requests. It returns ErrClosed once closed and empty, or ctx's error. gate, if not nil, is asked
	// once work is due and before the batch is cut; it may block. Once the gate has given leave, Next does not wait any
	// more: if others have taken the work meanwhile it returns nil, and the caller gives the leave back.
	Next(ctx context.Context, inst InstanceID, gate Gate) (*infer.Batch, error)
}

// Binder is a Batcher that ties requests to instances.
type Binder interface {
	Batcher
	// Attach says that an instance will call Next, before it does.
	Attach(inst InstanceID)
	// Detach gives an instance nothing new: its Next returns ErrClosed once what is tied to it has ended. It does not wait.
	Detach(inst InstanceID)
	// Forget says that an instance has lost what it kept of its sequences: those that have begun end. It is called between
	// Execute and the instance's next Next; begun says that those that began in that batch are not lost.
	EndSequences(inst InstanceID, begun bool)
}

// Rescheduler is a Batcher that takes a request again after an execution.
type Rescheduler interface {
	// Reschedule is called between Execute and the instance's next Next, for a request that is not answered. On nil the
	// scheduler has taken a reference on r. Errors: why r cannot go on, for its caller.
	Reschedule(r *infer.Request) error
}

// Remover is a Batcher that keeps something for each instance.
type Remover interface {
	// Leave is told once an instance has ended: it will not call Next any more. Its ID may be given to another one.
	Remove(inst InstanceID)
}

// InstanceID numbers a model version's instances from 0; those of instances that have left are used again.
type InstanceID int

// Serial is a Batcher for instances that execute several batches one after the other.
type Serial interface {
	// More appends to list batches for an instance that has one from Next and has not executed it, at most most of them: what
	// is due now, and of that not more than the instance's share. It does not wait, and gives nothing where a batch may have
	// several requests. What a model asks for comes behind other requests only if the same execution asks for those: others
	// may wait for that model. The caller owns what it gets, as from Next.
	More(inst InstanceID, list []*infer.Batch, most int) []*infer.Batch
}

// Gate asks for leave to run, as the rate limiter gives it. An error ends Next.
type Gate func(ctx context.Context) error
