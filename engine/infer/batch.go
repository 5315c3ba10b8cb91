package infer

import "sync"

// Batch is what an instance executes at once. The scheduler fills Requests and Rows; the instance sets Started; the
// backend marks its phases. A batch belongs to one goroutine.
type Batch struct {
	// Requests in the order of their rows. At least one.
	Requests []*Request
	// Rows is the sum of the requests' batch sizes.
	Rows int

	Started Stamp // the instance began
	Input   Stamp // inputs are gathered, the computation begins
	Output  Stamp // the computation ended, outputs are being handed out
	Ended   Stamp // Execute returned

	// Counted says that the statistics have this execution. Guarded by their lock.
	Counted bool
}

// MarkInput notes that the inputs are gathered.
func (b *Batch) MarkInput() { b.Input = Now() }

// MarkOutput notes that the computation ended.
func (b *Batch) MarkOutput() { b.Output = Now() }

// AllCancelled reports whether nobody waits for any row.
func (b *Batch) AllCancelled() bool {
	for _, r := range b.Requests {
		if !r.Cancelled() {
			return false
		}
	}
	return true
}

var batches = sync.Pool{New: func() any { return &Batch{} }}

// NewBatch returns an empty batch.
func NewBatch() *Batch { return batches.Get().(*Batch) }

// Recycle gives the batch's memory back. No request may point to it any more.
func (b *Batch) Recycle() {
	clear(b.Requests)
	*b = Batch{Requests: b.Requests[:0]}
	batches.Put(b)
}
