package stats

import (
	"time"

	"nereid/engine/infer"
)

// maxSizes is the number of batch sizes that a backend may report. Executions of more sizes are counted without.
const maxSizes = 1024

// SetReports says whether the backend reports its executions, and the responses of streams, to Reported. They are then
// not counted otherwise.
func (v *Version) SetReports(executions, responses bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reports.executions, v.reports.responses = executions, responses
}

// Reported counts an execution or a response of a stream as the backend reports it. Times that cannot be right count as
// none.
func (v *Version) Reported(p infer.Report) {
	in, run, out := p.Input.Sub(p.Began), p.Output.Sub(p.Input), p.Ended.Sub(p.Output)
	if p.Began > p.Input || p.Input > p.Output || p.Output > p.Ended || p.Ended > infer.Now() {
		in, run, out = 0, 0, 0
	}
	defer v.activity.note()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case p.Kind == infer.Executed:
		v.c.Executions++
		if len(v.c.Batches) < maxSizes {
			s := v.c.batch(p.N)
			s.Input.add(in)
			s.Infer.add(run)
			s.Output.add(out)
		}
	case p.Kind > infer.Executed && p.Kind <= infer.ResponseCancelled && p.N < MaxResponses:
		v.c.response(int(p.N)).reported(p.Kind, run, out)
	}
}

// response returns the statistics of a place in the streams, which is below MaxResponses.
func (c *Counters) response(i int) *Response {
	for len(c.Responses) <= i {
		c.Responses = append(c.Responses, Response{})
	}
	return &c.Responses[i]
}

// reported counts a response as Triton counts a report of it.
func (c *Response) reported(kind infer.ReportKind, run, out time.Duration) {
	switch kind {
	case infer.ResponseSucceeded:
		c.Success.add(run + out)
		c.Output.add(out)
	case infer.ResponseEmpty:
		c.Empty.add(run + out)
	case infer.ResponseFailed:
		c.Fail.add(run + out)
		if out > 0 {
			c.Output.add(out)
		}
	default:
		c.Cancel.add(run + out)
		return
	}
	c.Infer.add(run)
}
