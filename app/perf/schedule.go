package perf

import (
	"math/rand/v2"
	"time"
)

// schedule gives the time from one request's due time to the next one's; ok is false when there is none.
type schedule func() (gap time.Duration, ok bool)

// constant sends rate requests a second. The due times do not drift: what a gap is cut off comes with the next.
func constant(rate float64) schedule {
	var n float64
	var last time.Duration
	return func() (time.Duration, bool) {
		n++
		due := time.Duration(n / rate * float64(time.Second))
		gap := due - last
		last = due
		return gap, true
	}
}

// poisson sends rate requests a second on average, each independent of the others.
func poisson(rate float64, rng *rand.Rand) schedule {
	return func() (time.Duration, bool) {
		return time.Duration(rng.ExpFloat64() / rate * float64(time.Second)), true
	}
}

// repeated goes through gaps again and again.
func repeated(gaps []time.Duration) schedule {
	i := 0
	return func() (time.Duration, bool) {
		gap := gaps[i]
		i = (i + 1) % len(gaps)
		return gap, true
	}
}

// once sends at fixed times after the begin, in order, and then ends.
func once(at []time.Duration) schedule {
	i := 0
	var last time.Duration
	return func() (time.Duration, bool) {
		if i == len(at) {
			return 0, false
		}
		gap := at[i] - last
		last = at[i]
		i++
		return gap, true
	}
}

// meanRate is how many requests a second a list of gaps stands for.
func meanRate(gaps []time.Duration) float64 {
	var sum time.Duration
	for _, g := range gaps {
		sum += g
	}
	return float64(len(gaps)) / sum.Seconds()
}
