package alerts

import (
	"slices"
	"time"

	"nereid/store"
)

const (
	// window is how far the rules look back, and holds is how long a value must be within its limit to end an alert.
	window, holds = time.Minute, time.Minute
	// restartWindow is how far the rule of restarts looks back.
	restartWindow = 10 * time.Minute
	// forgets is after how long without evidence an alert ends.
	forgets = 15 * time.Minute
	// LeastFailing is how many requests a minute must have for the rule of failures.
	LeastFailing = 20
	// LeastSlow is how many requests a minute must have for the rule of times.
	LeastSlow = 100
	// leastReadings is how many readings in a row the rule of memory takes; they are ten seconds apart.
	leastReadings = 3
)

// watched is the last minute of a version.
type watched struct {
	seconds  []second // oldest first
	restarts []int64  // microseconds
	memory   []float64
}

type second struct {
	startUS int64
	sample  store.Sample
	pending int64
}

func (v *watched) add(s second) {
	v.seconds = append(v.seconds, s)
	old := 0
	for old < len(v.seconds) && v.seconds[old].startUS <= s.startUS-window.Microseconds() {
		old++
	}
	v.seconds = slices.Delete(v.seconds, 0, old)
	v.restarts = slices.DeleteFunc(v.restarts, func(at int64) bool {
		return at <= s.startUS-restartWindow.Microseconds()
	})
}

// finding is what a rule says of the last minute.
type finding struct {
	value float64
	known bool // there are enough requests or readings
	over  bool // the value is above the limit for certain
	under bool // the value is not above the limit
}

// failing is the share of failed requests against a limit.
func (v *watched) failing(limit float64) finding {
	var failed, n int64
	for i := range v.seconds {
		failed, n = failed+failures(&v.seconds[i].sample), n+counted(&v.seconds[i].sample)
	}
	if n < LeastFailing {
		return finding{}
	}
	low, _ := wilson(failed, n)
	share := float64(failed) / float64(n)
	return finding{value: share, known: true, over: low > limit, under: share <= limit}
}

// slow is the 99th percentile in microseconds against a limit.
func (v *watched) slow(limit float64) finding {
	var all store.Histogram
	for i := range v.seconds {
		if p := &v.seconds[i].sample; len(p.Latency) > 0 {
			all.Merge(p.Histogram())
		}
	}
	n := int64(all.Count())
	if n < LeastSlow {
		return finding{}
	}
	above := int64(all.Above(time.Duration(limit * 1000)))
	low, _ := wilson(above, n)
	return finding{value: float64(all.Quantile(0.99)) / 1000, known: true, over: low > 0.01,
		under: float64(above) <= 0.01*float64(n)}
}

// waiting is the median queue length against a limit.
func (v *watched) waiting(limit float64) finding {
	if len(v.seconds) < int(window/time.Second)/2 {
		return finding{}
	}
	lengths := make([]float64, len(v.seconds))
	for i, s := range v.seconds {
		lengths[i] = float64(s.pending)
	}
	slices.Sort(lengths)
	m := median(lengths)
	return finding{value: m, known: true, over: m > limit, under: m <= limit}
}

// taking is the memory in bytes against a limit.
func (v *watched) taking(limit float64) finding {
	if len(v.memory) < leastReadings {
		return finding{}
	}
	return finding{value: v.memory[len(v.memory)-1], known: true, over: slices.Min(v.memory) > limit,
		under: slices.Max(v.memory) <= 0.9*limit}
}

// restarting is the number of ended processes against a limit.
func (v *watched) restarting(limit float64) finding {
	n := float64(len(v.restarts))
	return finding{value: n, known: true, over: n >= limit, under: n < limit}
}
