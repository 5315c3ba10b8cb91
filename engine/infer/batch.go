package infer

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

	// Executed is what to count: 1, or more for backends that run a batch in several parts.
	Executed int
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
