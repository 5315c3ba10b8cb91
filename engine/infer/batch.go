package infer

import (
	"sync"
	"sync/atomic"
	"time"
)

// Batch is what an instance executes at once. The scheduler fills Requests and Rows; the instance calls Begin and End;
// the backend marks its phases. A batch belongs to one goroutine, but its stamps are read with each final response, from
// whichever goroutine gives it: a backend marks a phase before it answers the requests that the phase was for.
type Batch struct {
	// Requests in the order of their rows. At least one.
	Requests []*Request
	// Rows is the sum of the requests' batch sizes.
	Rows int
	// Nulls is how many of the requests stand for an empty slot of a sequence batch.
	Nulls int
	// Sequenced says that the requests are parts of sequences, of which the model may keep something for the next.
	Sequenced bool
	// Inline says that Execute runs on the goroutine that brought the request, which waits for Execute to return before it
	// looks at the answer.
	Inline bool
	// Lost is set by a backend that has lost what it kept of sequences.
	Lost Loss

	Started Stamp // the instance began
	Input   Stamp // inputs are gathered, the computation begins
	Output  Stamp // the computation ended, outputs are being handed out
	Ended   Stamp // Execute returned

	// Counted says that the statistics have this execution. Guarded by their lock.
	Counted bool
	// Closed is how long the output phase took, for the statistics. Guarded by their lock; 0 until it is over.
	Closed time.Duration

	// users are the requests without a final response, and the instance from Begin to End.
	users atomic.Int32
}

// Rows is the sum of the requests' batch sizes.
func Rows(requests []*Request) (rows int64) {
	for _, r := range requests {
		rows += int64(r.BatchSize)
	}
	return rows
}

// Loss is what became of what an instance keeps of sequences between executions.
type Loss uint8

// The losses.
const (
	NothingLost Loss = iota
	LostBefore       // what was kept before this execution
	LostNow          // that, and what this execution began
)

// Begin stamps the start and ties the requests to the batch: each takes its stamps over with its final response.
func (b *Batch) Begin() {
	b.Started = Now()
	b.users.Store(int32(len(b.Requests)) + 1)
	for _, r := range b.Requests {
		r.Batch = b
	}
}

// End says that the instance is done with the batch and will not look at it again. Its memory is reused once the last
// of its requests has its final response too, which for a decoupled model may be later.
func (b *Batch) End() { b.letGo() }

func (b *Batch) letGo() {
	if b.users.Add(-1) == 0 {
		b.Recycle()
	}
}

// MarkInput notes that the inputs are gathered.
func (b *Batch) MarkInput() { b.Input = Now() }

// MarkOutput notes that the computation ended.
func (b *Batch) MarkOutput() { b.Output = Now() }

// Ran sets the stamps of a batch that was executed in a series, where the backend knows when.
func (b *Batch) Ran(began, ended Stamp) {
	began = max(began, b.Started) // which is when the series began
	b.Started, b.Input, b.Output = began, began, max(began, ended)
}

// AllCancelled reports whether nobody waits for any row.
func (b *Batch) AllCancelled() bool {
	for _, r := range b.Requests {
		if !r.Cancelled() && !r.Null {
			return false
		}
	}
	return true
}

var batches = sync.Pool{New: func() any { return &Batch{} }}

// NewBatch returns an empty batch.
func NewBatch() *Batch { return batches.Get().(*Batch) }

// Recycle gives the batch's memory back. No request may point to it any more. A batch that has begun is not recycled
// by hand.
func (b *Batch) Recycle() {
	clear(b.Requests)
	b.Requests, b.Rows, b.Nulls, b.Sequenced, b.Inline, b.Lost = b.Requests[:0], 0, 0, false, false, NothingLost
	b.Started, b.Input, b.Output, b.Ended, b.Counted, b.Closed = 0, 0, 0, 0, false, 0
	b.users.Store(0)
	batches.Put(b)
}
