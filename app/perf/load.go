package perf

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Target answers requests. Infer waits for the last response to r and fills in c; by tells loads apart that must not
// overtake each other, as the requests of one sequence. It is safe for concurrent use.
type Target interface {
	Infer(ctx context.Context, by int, r *Request, c *Call) error
	Close() error
}

// load is one level of load while it runs.
type load struct {
	target Target
	feed   *feed
	rec    *recorder
	calls  context.Context // of requests: those under way when the load ends are still answered
	start  chan struct{}   // closed: the load begins
	stop   chan struct{}   // closed: nothing new is sent
	left   atomic.Int64    // requests that may still be sent, if limited
	limit  bool
	spare  time.Duration // how long before a request is due a timer is not trusted any more

	once  sync.Once
	fault error         // set by once; read after failed is closed
	fail  chan struct{} // closed: a request failed
}

// newLoad prepares one. want is how many requests it sends; 0: until it is stopped.
func newLoad(calls context.Context, target Target, f *feed, want int, keep bool) *load {
	shards := 2 * runtime.GOMAXPROCS(0)
	l := &load{target: target, feed: f, rec: newRecorder(shards, uint64(want), keep), calls: calls,
		start: make(chan struct{}), stop: make(chan struct{}), fail: make(chan struct{}), limit: want > 0}
	l.left.Store(int64(want))
	return l
}

// stopped tells whether nothing more is to be sent.
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

// ticket asks for the right to send one more.
func (l *load) ticket() bool {
	return !l.stopped() && (!l.limit || l.left.Add(-1) >= 0)
}

// send sends a request and counts it. due is zero in a closed loop.
func (l *load) send(by int, r *Request, due time.Time, count bool) bool {
	c := Call{Due: due, Keep: l.rec.keep, Start: time.Now()}
	err := l.target.Infer(l.calls, by, r, &c)
	if err == nil && len(r.Want) > 0 {
		if c.Last == nil {
			err = errors.New("the answer has no outputs, which validation_data names")
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
		l.rec.add(by, &c, r)
	}
	return true
}

// closed keeps n requests under way until the load is stopped, and waits for their answers.
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

// sequences plays one sequence after the other. The one under way when the load is stopped is ended, which is not counted.
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

// open sends requests when the schedule says, whatever becomes of those before, until the load is stopped or the schedule
// ends, and waits for their answers. No more than most are under way: those that must wait count their time.
func (l *load) open(next schedule, most int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	room := make(chan struct{}, most)
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
			l.send(i, r, due, true)
			<-room
		})
		return true
	})
}

// openSequences sends the next request of one of n sequences when the schedule says. A sequence has one request under way:
// the next one of it waits, and counts the time.
func (l *load) openSequences(next schedule, n int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make([]chan time.Time, n)
	for i := range slots {
		slots[i] = make(chan time.Time, 1024)
		wg.Go(func() { l.play(i, slots[i]) })
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

// play sends a sequence's requests when they are due, one after the other.
func (l *load) play(by int, due <-chan time.Time) {
	var s *sequence
	for at := range due {
		if l.stopped() {
			continue // those that wait are dropped
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
