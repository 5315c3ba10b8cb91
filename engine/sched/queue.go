package sched

import (
	"math/bits"

	"nereid/engine/infer"
)

// The states of a request's Place.
const (
	away    = iota // it is in no queue
	waiting        // it is in a queue, and its timeout, if any, has not expired
	delayed        // its timeout has expired, and it comes after those that are waiting
)

// queue holds requests by priority level. Within a level, waiting requests come before delayed ones, each in order of
// arrival. Operations take constant time, but those on requests with a timeout take logarithmic time.
type queue struct {
	n         int
	rows      int // of all requests together
	levels    []level
	nonempty  []uint64 // bit i: level i is not empty; unused while there is one level
	deadlines deadlines[infer.Request]
}

type level struct {
	policy           QueuePolicy
	waiting, delayed list[infer.Request]
}

func newQueue(p *Policy) queue {
	q := queue{levels: make([]level, max(p.Levels, 1))}
	for i := range q.levels {
		q.levels[i] = level{policy: p.Queue, waiting: requestList(), delayed: requestList()}
		if own, ok := p.LevelQueue[i+1]; ok && p.Levels > 0 {
			q.levels[i].policy = own
		}
	}
	q.nonempty = make([]uint64, (len(q.levels)+63)/64)
	q.deadlines.expiry = func(r *infer.Request) *infer.Expiry { return &r.Place.Expiry }
	return q
}

func (l *level) size() int { return l.waiting.n + l.delayed.n }

func (l *level) head() *infer.Request {
	if r := l.waiting.head; r != nil {
		return r
	}
	return l.delayed.head
}

// push appends r to its level. Place.Level is set. deadline is 0 if r has no timeout.
func (q *queue) push(r *infer.Request, deadline infer.Stamp) {
	i := r.Place.Level
	r.Place.State = waiting
	q.levels[i].waiting.push(r)
	if len(q.levels) > 1 {
		q.nonempty[i/64] |= 1 << (i % 64)
	}
	q.n++
	q.rows += r.BatchSize
	if deadline != 0 {
		q.deadlines.set(r, deadline)
	}
}

// remove removes r, which is in the queue.
func (q *queue) remove(r *infer.Request) {
	i := r.Place.Level
	l := &q.levels[i]
	if r.Place.State == waiting {
		l.waiting.remove(r)
	} else {
		l.delayed.remove(r)
	}
	if len(q.levels) > 1 && l.size() == 0 {
		q.nonempty[i/64] &^= 1 << (i % 64)
	}
	q.n--
	q.rows -= r.BatchSize
	q.deadlines.remove(r)
	r.Place = infer.Place{}
}

// delay moves a waiting request behind all others of its level.
func (q *queue) delay(r *infer.Request) {
	l := &q.levels[r.Place.Level]
	l.waiting.remove(r)
	q.deadlines.remove(r)
	r.Place.State = delayed
	l.delayed.push(r)
}

// first returns the request that is next, nil if there is none.
func (q *queue) first() *infer.Request {
	if len(q.levels) == 1 {
		return q.levels[0].head()
	}
	return q.firstFrom(0)
}

// firstFrom returns the head of the first level from i on that is not empty.
func (q *queue) firstFrom(i int) *infer.Request {
	for w := i / 64; w < len(q.nonempty); w++ {
		set := q.nonempty[w]
		if w == i/64 {
			set &= ^uint64(0) << (i % 64)
		}
		if set != 0 {
			return q.levels[w*64+bits.TrailingZeros64(set)].head()
		}
	}
	return nil
}

// after returns the request that follows r, nil if there is none.
func (q *queue) after(r *infer.Request) *infer.Request {
	if r.Place.Next != nil {
		return r.Place.Next
	}
	if next := q.levels[r.Place.Level].delayed.head; next != nil && r.Place.State == waiting {
		return next
	}
	if len(q.levels) == 1 {
		return nil
	}
	return q.firstFrom(r.Place.Level + 1)
}
