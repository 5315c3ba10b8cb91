package sched

import (
	"context"
	"errors"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// ErrClosed is what Next returns when the scheduler is closed and has no more requests.
var ErrClosed = errors.New("scheduler is closed")

// The errors of requests that leave the queue.
var (
	errClosed    = status.New(status.Unavailable, "the model version is being unloaded")
	errCancelled = status.New(status.Cancelled, "request was cancelled")
)

// Scheduler admits requests.
type Scheduler interface {
	// Enqueue admits r. If it returns nil, the scheduler holds a reference on r and passes it on with the batch. If it
	// returns an error, it keeps nothing of r. Never blocks. Safe for concurrent use. Errors: Unavailable when closed.
	Enqueue(r *infer.Request) error
	// Close admits no more requests. Those in the queue are still executed.
	Close()
}

// Batcher is a Scheduler from which free instances take batches.
type Batcher interface {
	Scheduler
	// Next waits until a batch is due for an instance and returns it. The caller then owns the batch and one reference
	// on each of its requests. It returns ErrClosed when the scheduler is closed and empty, or ctx's error.
	//
	// If gate is not nil, Next passes it when work is due, before it forms the batch. After the gate, Next does not
	// wait: if the work is gone, it returns nil, and the caller must return what it acquired with the gate.
	Next(ctx context.Context, inst InstanceID, gate *Gate) (*infer.Batch, error)
}

// Binder is a Batcher that binds requests to instances.
type Binder interface {
	Batcher
	// Attach adds an instance. It is called before the instance's first Next.
	Attach(inst InstanceID)
	// Detach ends the binding of new sequences to an instance. The instance's Next returns ErrClosed when its last
	// sequence has ended. Detach does not wait.
	Detach(inst InstanceID)
	// EndSequences ends the started sequences of an instance that has lost their state. It is called between Execute
	// and the instance's next Next. If begun is true, the sequences that started in that execution are kept.
	EndSequences(inst InstanceID, begun bool)
	// Suspend ends the sequences of an instance that cannot execute and so has lost their state. Those that have not
	// begun go to other instances. The instance gets new ones from its next Next on. It is called instead of Next.
	Suspend(inst InstanceID)
}

// Rescheduler is a Batcher that accepts a request again after an execution.
type Rescheduler interface {
	// Reschedule queues a request that has no final response again. It is called between Execute and the instance's
	// next Next. If it returns nil, the scheduler holds a reference on r. The error is for the caller of r.
	Reschedule(r *infer.Request) error
}

// Remover is a Batcher that keeps data about each instance.
type Remover interface {
	// Remove is called when an instance has ended and will not call Next again. Its ID may be given to another
	// instance.
	Remove(inst InstanceID)
}

// InstanceID numbers a model version's instances from 0. The numbers of removed instances are used again.
type InstanceID int

// Serial is a Batcher for instances that execute several batches one after the other.
type Serial interface {
	// More appends up to most batches to list, for an instance that has a batch from Next and has not executed it. It
	// returns only batches that are due now, and not more than the instance's share of them. It does not wait, and
	// returns nothing if a batch may have several requests. A request that a model's execution made (Request.Origin) is
	// appended only behind requests of the same execution. Behind others it could wait for a request that waits for
	// that model. The caller owns the batches as from Next.
	More(inst InstanceID, list []*infer.Batch, most int) []*infer.Batch
}

// Gate is the permission to execute, for example that of the rate limiter.
type Gate struct {
	// Pass acquires it. It may block. An error ends Next.
	Pass func(ctx context.Context) error
	// Passed says that the caller of Next has it already.
	Passed bool
}

// fail answers requests that have left the queue with an error, without regard to PreserveOrdering. It is called
// without a lock.
func fail(requests []*infer.Request, err error) {
	for _, r := range requests {
		r.LeaveOrder()
		r.Fail(err)
		r.Release()
	}
}
