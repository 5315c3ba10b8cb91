package history

import (
	"nereid/engine/stats"
	"nereid/store"
)

// Second is what every loaded version did in one second.
type Second struct {
	// StartUS is when the second begins, in microseconds since 1970.
	StartUS int64
	// Samples has one entry for each loaded version, ordered by model and version, including idle versions.
	Samples []store.Sample
	// Pending is how many requests of each entry of Samples waited at the end of the second.
	Pending []int64
}

// difference returns what happened between two snapshots of a version. If the epoch changed, the counters restarted
// from zero: then it is all of next.
func difference(prev, next *stats.Snapshot, startUS int64) store.Sample {
	var zero stats.Snapshot
	if prev == nil || prev.Epoch != next.Epoch {
		prev = &zero
	}
	d := store.Sample{
		Model: next.Model, Version: next.Version, StartUS: startUS,
		Successes: diff(prev.Success.Count, next.Success.Count),
		Failures: store.Failures{
			Rejected: diff(prev.Failures[stats.Rejected], next.Failures[stats.Rejected]),
			Canceled: diff(prev.Failures[stats.Canceled], next.Failures[stats.Canceled]),
			Backend:  diff(prev.Failures[stats.BackendFailure], next.Failures[stats.BackendFailure]),
			Other:    diff(prev.Failures[stats.Other], next.Failures[stats.Other]),
		},
		Inferences:      diff(prev.Inferences, next.Inferences),
		Executions:      diff(prev.Executions, next.Executions),
		BatchRows:       diff(rows(prev), rows(next)),
		QueueNS:         diff(prev.Queue.Ns, next.Queue.Ns),
		ComputeInputNS:  diff(prev.Input.Ns, next.Input.Ns),
		ComputeInferNS:  diff(prev.Infer.Ns, next.Infer.Ns),
		ComputeOutputNS: diff(prev.Output.Ns, next.Output.Ns),
		RequestNS:       diff(prev.Success.Ns, next.Success.Ns),
	}
	d.Requests = d.Successes + d.Failures.Total()
	if d.Successes > 0 {
		var h store.Histogram
		for i, n := range next.Latency {
			if n > prev.Latency[i] {
				h.Add(i, n-prev.Latency[i])
			}
		}
		d.Latency, _ = h.MarshalBinary()
	}
	return d
}

// diff returns next-prev. A counter must not fall; if one does, that counts as no change.
func diff(prev, next uint64) int64 {
	if next < prev {
		return 0
	}
	return int64(next - prev)
}

// rows returns the number of rows in all executed batches.
func rows(s *stats.Snapshot) (n uint64) {
	for i := range s.Batches {
		n += s.Batches[i].Size * s.Batches[i].Infer.Count
	}
	return n
}

// idle reports whether nothing happened that is worth a row.
func idle(p *store.Sample) bool { return p.Requests == 0 && p.Executions == 0 && p.Inferences == 0 }

// Both packages define the same histogram buckets. This line fails to compile if their number differs; a test compares
// the bounds.
var _ = [1]struct{}{}[stats.Buckets-store.NumBuckets]
