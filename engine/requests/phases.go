package requests

import (
	"time"

	"nereid/engine/infer"
)

// Phase is a part of a request's time in the server.
type Phase int

// The phases, in order.
const (
	Receive Phase = iota // the message came and was decoded
	Check                // it was checked and admitted, or refused; looked up in the response cache
	Queue                // it waited for an instance
	Input                // the inputs of its batch were gathered
	Compute
	Output // the outputs were handed out
	Encode // the answer was made
	Send   // it was handed to the connection

	NumPhases
)

// Phases returns the time of each phase. They follow each other without gaps: their sum is Ended minus Began. For an
// ensemble's request, Queue to Compute are the sums of its steps, as in its statistics. If steps ran at the same time
// and the sums are more than the time that passed, each phase has its share of that time.
func (r *Record) Phases() (all [NumPhases]time.Duration) {
	at := r.Began()
	until := func(p Phase, s infer.Stamp) {
		if s > at {
			all[p] += s.Sub(at)
			at = s
		}
	}
	until(Receive, r.Arrived)
	switch {
	case r.Cached || r.Queued == 0: // it was answered, or refused, before it was queued
		until(Check, r.Finished)
		if r.Finished == 0 {
			until(Check, r.Encoded)
		}
	case r.Taken == 0: // it left the queue, or left the server while it was there
		until(Check, r.Queued)
		until(Queue, max(r.Finished, r.Queued))
	default:
		share := 1.0
		if sums := r.Times.Output.Sub(r.Queued); r.Times.Output > r.Finished && sums > 0 {
			share = float64(r.Finished.Sub(r.Queued)) / float64(sums)
		}
		until(Check, r.Queued)
		for p, s := range []infer.Stamp{r.Taken, r.Times.Input, r.Times.Output} {
			until(Queue+Phase(p), r.Queued+infer.Stamp(share*float64(s.Sub(r.Queued))))
		}
		until(Output, r.Finished)
	}
	until(Encode, r.Encoded)
	until(Send, r.Sent)
	until(Send, r.Ended())
	return all
}

// Busy returns how long a request waited while its instance ran the execution before.
func (r *Record) Busy() time.Duration {
	b := &r.Ran.Before
	if r.Queued == 0 || r.Taken == 0 || b.Ended == 0 {
		return 0
	}
	return min(b.Ended, r.Taken).Sub(max(b.Started, r.Queued))
}
