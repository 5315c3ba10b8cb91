package whatif

import (
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/requests"
)

const ms = time.Millisecond

// recording has requests of one row at these times, in milliseconds, and executions of 10 ms and 1 ms for each further
// row.
func recording(at ...int) *Recording {
	rec := &Recording{took: map[int][]execution{}}
	for _, t := range at {
		rec.requests = append(rec.requests, request{at: time.Duration(t) * ms, rows: 1, around: ms})
	}
	for _, rows := range []int{1, 2, 4} {
		for i := range enough {
			x := execution{time.Duration(i) * ms, 10*ms + time.Duration(rows-1)*ms}
			rec.took[rows] = append(rec.took[rows], x)
		}
	}
	return rec
}

func TestPredictedByHand(t *testing.T) {
	for _, c := range []struct {
		name     string
		at       []int
		s        Settings
		speed    float64
		p50, p99 time.Duration
		queue    time.Duration
		rows     float64
	}{
		// Each waits for those before: 10, 20 and 30 ms, and 1 ms around.
		{"one after the other", []int{0, 0, 0}, Settings{Instances: 1}, 1, 21 * ms, 31 * ms, 10 * ms, 1},
		{"two instances", []int{0, 0, 0}, Settings{Instances: 2}, 1, 11 * ms, 21 * ms, 10 * ms / 3, 1},
		// All are there, so they are a batch of three: 12 ms.
		{"a batch", []int{0, 0, 0}, Settings{Dynamic: true, MaxBatchSize: 8, Instances: 1}, 1, 13 * ms, 13 * ms, 0, 3},
		// The first waits 5 ms for the second at 3 ms: both begin at 5 ms and take 11 ms.
		{"a delay", []int{0, 3}, Settings{Dynamic: true, MaxBatchSize: 8, MaxQueueDelay: 5 * ms, Instances: 1}, 1,
			17 * ms, 17 * ms, 7 * ms / 2, 2},
		// The preferred size is reached at 3 ms.
		{"a preferred size", []int{0, 3, 90}, Settings{Dynamic: true, MaxBatchSize: 8, Preferred: []int{2},
			MaxQueueDelay: 5 * ms, Instances: 1}, 1, 15 * ms, 16 * ms, 8 * ms / 3, 1.5},
		// At half the speed the second comes at 6 ms, too late for the first.
		{"a lower load", []int{0, 3}, Settings{Dynamic: true, MaxBatchSize: 8, MaxQueueDelay: 5 * ms, Instances: 2},
			0.5, 16 * ms, 16 * ms, 5 * ms, 1},
		// Batches of two: 11 ms each.
		{"full batches", []int{0, 0, 0, 0}, Settings{Dynamic: true, MaxBatchSize: 2, MaxQueueDelay: 50 * ms,
			Instances: 1}, 1, 23 * ms, 23 * ms, 11 * ms / 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, beyond := recording(c.at...).Predict(c.s, c.speed)
			if f.P50 != c.p50 || f.P99 != c.p99 || f.Queue != c.queue || f.Rows != c.rows || beyond != 0 {
				t.Errorf("%+v, beyond %v; want p50 %v, p99 %v, queue %v, rows %v and 0",
					f, beyond, c.p50, c.p99, c.queue, c.rows)
			}
		})
	}
}

func TestTimesOfUnknownBatchSizes(t *testing.T) {
	known := newTimes(recording(0).took)
	for rows, want := range map[int]time.Duration{1: 10 * ms, 2: 11 * ms, 3: 12 * ms, 4: 13 * ms, 10: 19 * ms} {
		if got := known.typical(rows); got != want {
			t.Errorf("%d rows take %v, want %v", rows, got, want)
		}
		if got := known.draw(rows, 0); got != want {
			t.Errorf("%d rows are drawn as %v, want %v", rows, got, want)
		}
	}
	alone := newTimes(map[int][]execution{4: {{0, 8 * ms}}})
	if got := alone.typical(8); got != 16*ms {
		t.Errorf("without another size, twice the rows take %v, want twice the time", got)
	}
	if got := alone.typical(1); got != 2*ms {
		t.Errorf("a quarter of the rows takes %v, want a quarter", got)
	}
	batched := Settings{Dynamic: true, MaxBatchSize: 8, Instances: 1}
	slow := newTimes(map[int][]execution{1: {{0, ms}, {5 * ms, 9 * ms}, {8 * ms, 2 * ms}}})
	for at, want := range map[time.Duration]time.Duration{0: ms, ms: 9 * ms, 5 * ms: 9 * ms, 6 * ms: 2 * ms,
		99 * ms: 2 * ms} {
		if got := slow.draw(1, at); got != want {
			t.Errorf("an execution at %v takes %v, want %v", at, got, want)
		}
	}
	if _, beyond := recording(0, 0, 0, 0, 0).Predict(batched, 1); beyond != 1 {
		t.Errorf("a batch of 5 is beyond the largest recorded of 4: %v", beyond)
	}
}

func TestReadTakesArrivalsAndTimesFromRecords(t *testing.T) {
	log := requests.New()
	start := infer.Now()
	at := func(d time.Duration) infer.Stamp { return start + infer.Stamp(d) }
	// add records a request of a batch that arrived, was executed from begin to end, and was sent 1 ms later.
	add := func(model string, arrived, begin, end time.Duration, rows int) {
		a := log.Begin("http", nil, at(arrived))
		a.Record.Model, a.Record.Version, a.Record.Rows = model, 1, 1
		a.Record.Ran = infer.Ran{Instance: model + "_0", Rows: rows}
		a.Record.Queued, a.Record.Taken, a.Record.Finished = at(arrived), at(begin), at(end)
		a.Record.Encoded = at(end + ms)
		a.Sent()
	}
	add("m", 0, 0, 10*ms, 1)
	add("m", 2*ms, 12*ms, 24*ms, 2) // both wait for the instance, which pauses for 2 ms
	add("m", 4*ms, 12*ms, 24*ms, 2)
	add("other", 0, 0, 99*ms, 1)
	rec := Read(log, "m", 1, start.Time().Add(-1), 1)
	if rec.Len() != 3 || rec.Span() != 4*ms || rec.Largest() != 2 {
		t.Fatalf("%d requests in %v, the largest batch %d", rec.Len(), rec.Span(), rec.Largest())
	}
	if got := rec.Measured; got.Rows != 1.5 || got.Queue != 6*ms {
		t.Errorf("measured: %+v; want 1.5 rows and a queue of 6 ms", got)
	}
	if rec.pause != 2*ms || rec.handover != 0 {
		t.Errorf("an instance pauses for %v, and takes over after %v; want 2 ms and 0", rec.pause, rec.handover)
	}
	if n := Read(log, "m", 1, at(3*ms).Time(), 1).Len(); n != 1 {
		t.Errorf("%d requests came after the version was loaded, want 1", n)
	}
	f, _ := rec.Predict(Settings{Dynamic: true, MaxBatchSize: 8, Instances: 1}, 1)
	if f.Rows != 1.5 || f.Queue != 6*ms {
		t.Errorf("the same settings give the same: %+v", f)
	}
	f, beyond := Read(requests.New(), "m", 1, time.Time{}, 1).Predict(Settings{}, 1)
	if f != (Figures{}) || beyond != 0 {
		t.Errorf("without requests: %+v", f)
	}
}
