package whatif

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"nereid/engine/infer"
	"nereid/engine/requests"
)

// Recording is the last requests of a model version.
type Recording struct {
	// Measured is how they fared.
	Measured Figures

	requests []request // by arrival
	took     map[int][]execution
	// pause is the time of an instance between two executions while requests wait, and handover that of a request
	// that makes a batch complete until an idle instance has it.
	pause, handover time.Duration
}

// request is one request: when it was queued, since the first one.
type request struct {
	at   time.Duration
	rows int
	// around is its latency without the queue and the execution.
	around time.Duration
}

// Figures are those of a load.
type Figures struct {
	P50, P99 time.Duration // latency in the server
	Queue    time.Duration // mean
	Rows     float64       // of a batch, the mean
	Busy     float64       // share of the instances' time, from 0 to 1
}

// run is one execution: what the records of its requests say about it.
type run struct {
	instance   string
	rows       int
	begin, end infer.Stamp
	complete   infer.Stamp // its last request was queued
}

// Read reads the records of a model version that has had this number of instances since a moment. Requests that were
// not executed, or failed, are left out.
func Read(log *requests.Log, model string, version int64, since time.Time, instances int) *Recording {
	rec := &Recording{took: map[int][]execution{}}
	var all []requests.Record
	log.Since(log.Oldest(), func(_ int64, r *requests.Record) {
		ran := r.Outcome == requests.OK && r.Ran.Rows > 0 && r.Queued != 0 && r.Finished > r.Taken
		if ran && r.Model == model && r.Version == version && r.Queued.Time().After(since) {
			all = append(all, *r)
		}
	})
	if len(all) == 0 {
		return rec
	}
	slices.SortFunc(all, func(a, b requests.Record) int { return cmp.Compare(a.Queued, b.Queued) })
	type key struct {
		instance string
		begin    infer.Stamp
	}
	runs := map[key]*run{}
	var latencies []time.Duration
	var queued time.Duration
	for i := range all {
		r := &all[i]
		whole := r.Ended().Sub(r.Began())
		latencies, queued = append(latencies, whole), queued+r.Taken.Sub(r.Queued)
		around := max(0, whole-r.Finished.Sub(r.Queued))
		rec.requests = append(rec.requests, request{at: r.Queued.Sub(all[0].Queued), rows: r.Rows, around: around})
		at := key{r.Ran.Instance, r.Taken}
		if runs[at] == nil {
			runs[at] = &run{instance: r.Ran.Instance, rows: r.Ran.Rows, begin: r.Taken}
		}
		x := runs[at]
		x.end, x.complete = max(x.end, r.Finished), r.Queued
	}
	byBegin := func(a, b *run) int { return cmp.Compare(a.begin, b.begin) }
	rec.learn(slices.SortedFunc(maps.Values(runs), byBegin), all[0].Queued)
	rec.Measured = figures(latencies, queued, rec.took, rec.Span(), instances)
	return rec
}

// learn takes the times of executions, which are sorted by their begin. first is when the first request was queued.
func (rec *Recording) learn(runs []*run, first infer.Stamp) {
	var pauses, handovers []time.Duration
	last := map[string]*run{}
	for _, x := range runs {
		rec.took[x.rows] = append(rec.took[x.rows], execution{at: x.begin.Sub(first), took: x.end.Sub(x.begin)})
		if before := last[x.instance]; before != nil && x.complete < before.end && x.begin > before.end {
			pauses = append(pauses, x.begin.Sub(before.end)) // its requests waited for the instance
		} else if before == nil || x.complete > before.end {
			handovers = append(handovers, x.begin.Sub(x.complete))
		}
		last[x.instance] = x
	}
	slices.Sort(pauses)
	slices.Sort(handovers)
	rec.pause = quantile(pauses, 0.5)
	rec.handover = min(quantile(handovers, 0.1), time.Millisecond) // others waited for the queue delay too
}

// Len returns the number of requests.
func (rec *Recording) Len() int { return len(rec.requests) }

// Span returns the time between the first and the last request.
func (rec *Recording) Span() time.Duration {
	if len(rec.requests) == 0 {
		return 0
	}
	return rec.requests[len(rec.requests)-1].at
}

// Largest returns the largest batch size whose execution times are known. There must be a request.
func (rec *Recording) Largest() int { return newTimes(rec.took).largest() }

// figures adds up what happened. took are the execution times by batch size.
func figures(
	latencies []time.Duration, queued time.Duration, took map[int][]execution, span time.Duration, instances int,
) Figures {
	slices.Sort(latencies)
	rows, runs, busy := 0, 0, time.Duration(0)
	for size, list := range took {
		rows, runs = rows+size*len(list), runs+len(list)
		for _, x := range list {
			busy += x.took
		}
	}
	f := Figures{P50: quantile(latencies, 0.5), P99: quantile(latencies, 0.99)}
	f.Queue = queued / time.Duration(max(1, len(latencies)))
	f.Rows = float64(rows) / float64(max(1, runs))
	if span > 0 {
		f.Busy = min(1, float64(busy)/float64(span)/float64(max(1, instances)))
	}
	return f
}
