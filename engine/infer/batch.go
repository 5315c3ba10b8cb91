package infer

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Batch is what an instance executes at once. The scheduler fills in Requests and Rows, the instance calls Begin and
// End, and the backend marks its phases. A batch belongs to one goroutine. But any goroutine that gives a final
// response reads the stamps, so a backend marks a phase before it answers the requests of that phase.
type Batch struct {
	// Requests are in the order of their rows. There is at least one.
	Requests []*Request
	// Rows is the sum of the requests' batch sizes.
	Rows int
	// Nulls is how many of the requests stand for an empty slot of a sequence batch.
	Nulls int
	// Sequenced says that the requests belong to sequences, for which the model may keep state.
	Sequenced bool
	// Inline says that Execute runs on the goroutine that brought the request. That goroutine waits for Execute to
	// return before it reads the response.
	Inline bool
	// Instance is the name of the instance, and Before its execution before this one.
	Instance string
	Before   Execution
	// Lost is set by a backend that has lost the state of sequences.
	Lost Loss

	Started Stamp // the instance began
	Input   Stamp // inputs are gathered, the computation begins
	Output  Stamp // the computation ended, outputs are being handed out
	Ended   Stamp // Execute returned

	// Counted says that the statistics include this execution. Guarded by the lock of the statistics.
	Counted bool
	// Closed is how long the output phase took, 0 until it has ended. Guarded by the lock of the statistics.
	Closed time.Duration

	// users counts the requests without a final response, and the instance from Begin to End.
	users atomic.Int32
}

// ErrNotBegun is the error of a batch that an instance has not begun and another one is to execute.
var ErrNotBegun = errors.New("the batch has not begun")

// Rows is the sum of the requests' batch sizes.
func Rows(requests []*Request) (rows int64) {
	for _, r := range requests {
		rows += int64(r.BatchSize)
	}
	return rows
}

// Execution is a past execution of an instance.
type Execution struct {
	Rows, Requests int
	Started, Ended Stamp
}

// Ran says in which execution a request ran. An ensemble's request has none of its own.
type Ran struct {
	Instance       string
	Rows, Requests int // of the whole batch
	Before         Execution
}

// Loss says which state of sequences an instance has lost.
type Loss uint8

// The losses.
const (
	NothingLost Loss = iota
	LostBefore       // the state of sequences from before this execution
	LostNow          // that, and the state of sequences that this execution began
)

// Begin stamps the start and sets the requests' Batch. Each request copies the stamps with its final response.
func (b *Batch) Begin() {
	b.Started = Now()
	b.users.Store(int32(len(b.Requests)) + 1)
	for _, r := range b.Requests {
		r.Batch = b
	}
}

// End says that the instance no longer uses the batch. The memory is reused when all its requests also have their final
// responses, which may be later for a decoupled model.
func (b *Batch) End() { b.release() }

func (b *Batch) release() {
	if b.users.Add(-1) == 0 {
		b.Recycle()
	}
}

// MarkInput stamps the end of the input phase: the inputs are gathered.
func (b *Batch) MarkInput() { b.Input = Now() }

// MarkOutput stamps the end of the computation.
func (b *Batch) MarkOutput() { b.Output = Now() }

// SetSpan sets the stamps of a batch that the backend executed in a series.
func (b *Batch) SetSpan(began, ended Stamp) {
	began = max(began, b.Started) // the start of the series
	b.Started, b.Input, b.Output = began, began, max(began, ended)
}

// AllCancelled reports whether all requests are cancelled or stand for empty slots.
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

// Recycle makes the memory of a batch that has not begun available again. A batch that has begun is recycled by End and
// the final responses.
func (b *Batch) Recycle() {
	clear(b.Requests)
	*b = Batch{Requests: b.Requests[:0]}
	batches.Put(b)
}
