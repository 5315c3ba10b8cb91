package perf

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Target sends requests. Infer waits for the last response to r and fills in c. Requests with the same by keep their
// order: those of one sequence have the same. A Target is safe for concurrent use.
type Target interface {
	Infer(ctx context.Context, by int, r *Request, c *Call) error
	Close() error
}

// load is a level of load while it runs.
type load struct {
	target Target
	feed   *feed
	rec    *recorder
	calls  context.Context // of requests: those in flight when the load ends still get their responses
	start  chan struct{}   // closed when the load begins
	stop   chan struct{}   // closed when no new requests are sent any more
	left   atomic.Int64    // requests that may still be sent, if limit
	limit  bool
	spare  time.Duration // how long before a request is due pace stops using a timer, which may be late

	once  sync.Once
	fault error         // set by once; read after fail is closed
	fail  chan struct{} // closed when a request has failed
}

// newLoad prepares a load of want requests; 0: until it is stopped.
func newLoad(calls context.Context, target Target, f *feed, want int, keep bool) *load {
	l := &load{target: target, feed: f, rec: newRecorder(uint64(want), keep), calls: calls,
		start: make(chan struct{}), stop: make(chan struct{}), fail: make(chan struct{}), limit: want > 0}
	l.left.Store(int64(want))
	return l
}

// stopped reports whether no more requests are to be sent.
func (l *load) stopped() bool {
	select {
	case <-l.stop:
		return true
	case <-l.fail:
		return true
	default:
		return false
	}
}

// ticket reports whether one more request may be sent, and counts it.
func (l *load) ticket() bool {
	return !l.stopped() && (!l.limit || l.left.Add(-1) >= 0)
}

// send sends a request, and counts it if count is set. due is zero in a closed loop.
func (l *load) send(by int, r *Request, due time.Time, count bool) bool {
	return l.call(by, r, &Call{Due: due, Start: time.Now()}, count)
}

// call sends a request whose start has been recorded.
func (l *load) call(by int, r *Request, c *Call, count bool) bool {
	c.Keep = l.rec.keep
	err := l.target.Infer(l.calls, by, r, c)
	if err == nil && len(r.Want) > 0 {
		if c.Last == nil {
			err = errors.New("the response has no outputs, which validation_data names")
		} else {
			err = check(c.Last, r.Want)
		}
	}
	if err != nil {
		l.once.Do(func() {
			l.fault = fmt.Errorf("request %s: %w", r.ID, err)
			close(l.fail)
		})
		return false
	}
	if count {
		l.rec.add(c, r)
	} else {
		l.rec.export(c, r)
	}
	return true
}

// closed keeps n requests in flight until the load is stopped, and waits for their responses.
func (l *load) closed(n int) {
	var wg sync.WaitGroup
	for i := range n {
		if l.feed.model.Sequence {
			wg.Go(func() { l.sequences(i) })
		} else {
			wg.Go(func() {
				for l.ticket() && l.send(i, l.feed.next(), time.Time{}, true) {
				}
			})
		}
	}
	wg.Wait()
}

// sequences sends one sequence after the other. When the load is stopped it ends the current one by a request that does
// not count.
func (l *load) sequences(by int) {
	for !l.stopped() {
		s := l.feed.begin()
		for {
			if !l.ticket() {
				if s.at > 0 {
					l.send(by, l.feed.step(s, true), time.Time{}, false)
				}
				l.feed.end(s)
				return
			}
			r := l.feed.step(s, false)
			if !l.send(by, r, time.Time{}, true) {
				l.feed.end(s)
				return
			}
			if r.Sequence.End {
				break
			}
		}
		l.feed.end(s)
	}
}

// open sends requests when they are due, whether or not earlier ones have been answered, until the load is stopped or
// the schedule ends. Then it waits for the responses. At most `most` requests are in flight; the latency of the others
// includes the wait. If ordered is set, no request starts before the one that was due before it; this costs a switch of
// goroutines per request.
func (l *load) open(next schedule, most int, ordered bool) {
	var wg sync.WaitGroup
	defer wg.Wait()
	room := make(chan struct{}, most)
	begun := make(chan struct{}, 1)
	l.pace(next, func(i int, due time.Time) bool {
		select {
		case room <- struct{}{}:
		case <-l.stop:
			return false
		case <-l.fail:
			return false
		}
		r := l.feed.next()
		wg.Go(func() {
			c := Call{Due: due, Start: time.Now()}
			if ordered {
				begun <- struct{}{}
			}
			l.call(i, r, &c, true)
			<-room
		})
		if ordered {
			<-begun
		}
		return true
	})
}

// openSequences sends requests of n sequences in turn when they are due. A sequence has one request in flight: its next
// one waits, and its latency includes the wait.
func (l *load) openSequences(next schedule, n int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make([]chan time.Time, n)
	for i := range slots {
		slots[i] = make(chan time.Time, 1024)
		wg.Go(func() { l.sendDue(i, slots[i]) })
		defer close(slots[i])
	}
	l.pace(next, func(i int, due time.Time) bool {
		select {
		case slots[i%n] <- due:
			return true
		case <-l.stop:
			return false
		case <-l.fail:
			return false
		}
	})
}

// pace calls emit for each request when it is due, until emit is false, the schedule ends or the load is stopped.
func (l *load) pace(next schedule, emit func(i int, due time.Time) bool) {
	due := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := 0; ; i++ {
		gap, ok := next()
		if !ok {
			return
		}
		due = due.Add(gap)
		if d := time.Until(due) - l.spare; d > 0 {
			timer.Reset(d)
			select {
			case <-timer.C:
			case <-l.stop:
				return
			case <-l.fail:
				return
			}
		}
		for d := time.Until(due); d > 0; d = time.Until(due) {
			pause(d)
		}
		if !l.ticket() || !emit(i, due) {
			return
		}
	}
}

// sendDue sends the requests of one sequence after the other when they are due.
func (l *load) sendDue(by int, due <-chan time.Time) {
	var s *sequence
	for at := range due {
		if l.stopped() {
			continue // drops the waiting requests
		}
		if s == nil {
			s = l.feed.begin()
		}
		r := l.feed.step(s, false)
		if !l.send(by, r, at, true) || r.Sequence.End {
			l.feed.end(s)
			s = nil
		}
	}
	if s != nil {
		select {
		case <-l.fail:
		default:
			l.send(by, l.feed.step(s, true), time.Time{}, false)
		}
		l.feed.end(s)
	}
}

// schedule returns the time from one request's due time to that of the next; ok is false after the last.
type schedule func() (gap time.Duration, ok bool)

// constant is a schedule of rate requests per second. Due times do not drift: a gap includes what rounding cut off
// before.
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

// poisson is a schedule of rate requests per second on average, with independent gaps.
func poisson(rate float64, rng *rand.Rand) schedule {
	return func() (time.Duration, bool) {
		return time.Duration(rng.ExpFloat64() / rate * float64(time.Second)), true
	}
}

// repeated is a schedule that repeats the gaps.
func repeated(gaps []time.Duration) schedule {
	i := 0
	return func() (time.Duration, bool) {
		gap := gaps[i]
		i = (i + 1) % len(gaps)
		return gap, true
	}
}

// once is a schedule of fixed times after the begin, in order.
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

// meanRate is the requests per second of a list of gaps.
func meanRate(gaps []time.Duration) float64 {
	var sum time.Duration
	for _, g := range gaps {
		sum += g
	}
	return float64(len(gaps)) / sum.Seconds()
}
