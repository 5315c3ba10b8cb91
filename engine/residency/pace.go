package residency

import (
	"time"

	"nereid/engine/stats"
)

const (
	// calm is how long nothing must have happened before the ledger looks only every restEvery. The history does the
	// same at the same time, so that an idle server wakes up once for both.
	calm      = time.Minute
	restEvery = 10 * time.Second
)

// pace says when the ledger looks the next time.
type pace struct {
	every    time.Duration // while requests come, or a model waits until it has been idle for long enough
	activity func() <-chan struct{}

	happened <-chan struct{} // receives at the next request, load or unload; nil: it is not known
	last     time.Time       // when it was seen that something had happened
	resting  bool
}

func newPace(every time.Duration, activity func() <-chan struct{}, now time.Time) *pace {
	p := &pace{every: every, activity: activity, last: now}
	p.await()
	return p
}

func (p *pace) await() {
	if p.activity != nil {
		p.happened = p.activity()
	}
}

// next returns how long to wait, and what ends a rest.
func (p *pace) next(now time.Time) (time.Duration, <-chan struct{}) {
	if p.resting {
		return stats.UntilNext(restEvery, now), p.happened
	}
	return p.every, nil
}

// woken ends a rest.
func (p *pace) woken(now time.Time) {
	p.resting, p.last = false, now
	p.await()
}

// looked is called before the ledger looks. pending says that a model waits until it has been idle for long enough.
func (p *pace) looked(now time.Time, pending bool) {
	select {
	case <-p.happened:
		p.last = now
		p.await()
	default:
	}
	p.resting = p.happened != nil && !pending && now.Sub(p.last) > calm
}
