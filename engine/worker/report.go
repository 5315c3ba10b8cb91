package worker

import (
	"nereid/engine/infer"
	"nereid/engine/worker/frames"
)

// reported hands on what the process says of its executions and responses. The error is a frame that does not decode.
func (w *Worker) reported(body []byte) error {
	for len(body) > 0 {
		var p infer.Report
		var err error
		if p, body, err = frames.ParseReport(body); err != nil {
			return err
		}
		if w.spec.Reported != nil {
			w.spec.Reported(w.clock.report(p))
		}
	}
	return nil
}

// report turns the times of a process's report into stamps. A time that the backend does not know, 0, stays 0.
func (c stampClock) report(p infer.Report) infer.Report {
	for _, t := range []*infer.Stamp{&p.Began, &p.Input, &p.Output, &p.Ended} {
		if *t != 0 {
			*t += c.offset
		}
	}
	return p
}

// Report says something of executions and responses, whose times are nanoseconds of the monotonic clock. It comes
// before responses that are given after the call.
func (p *Peer) Report(all []infer.Report) {
	var body []byte
	for i := range all {
		body = frames.AppendReport(body, &all[i])
	}
	_ = p.s.sendBytes(frames.KindReport, 0, body) // without a connection the process ends
}
