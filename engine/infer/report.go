package infer

// ReportKind says what a Report is about.
type ReportKind uint32

// The kinds of reports. A request has succeeded or failed. The others are about one execution, or about one response of
// a stream.
const (
	RequestSucceeded ReportKind = iota
	RequestFailed
	Executed
	ResponseSucceeded
	ResponseEmpty
	ResponseFailed
	ResponseCancelled
)

// Report is what a backend says of its work. The statistics have it in place of what the server has measured.
type Report struct {
	Kind ReportKind
	N    uint64 // of an execution: its batch size; of a response: how many of its stream were reported before
	// In the process of a model these are nanoseconds of the monotonic clock, as the backend gave them.
	Began, Input, Output, Ended Stamp
}

// report takes the times of a request's report over, unless they cannot be right.
func (t *Times) report(p *Report) {
	if p.Kind == RequestSucceeded && t.Queued <= p.Began && p.Began <= p.Input && p.Input <= p.Output &&
		p.Output <= p.Ended && p.Ended <= t.Finished {
		t.Taken, t.Input, t.Output, t.Closed = p.Began, p.Input, p.Output, p.Ended
	}
}
