package sched

import (
	"math/bits"

	"nereid/engine/infer"
)

// The states of a request's Place.
const (
	away    = iota
	waiting // its timeout, if any, has not expired
	delayed // it has, and the request goes after those that wait
)

// queue holds requests by priority level. Within a level those that wait come first, each kind in order of arrival. To
// add, to remove any, to step to the next and to find the head take constant time; a timeout costs the logarithm of
// the number of those that have one.
type queue struct {
	n         int
	rows      int // of all requests together
	levels    []level
	busy      []uint64         // bit i: level i is not empty; unused while there is one level
	deadlines []*infer.Request // a heap by Place.Deadline; Place.Heap is the index here, plus 1
}

type level struct {
	policy QueuePolicy
	lists  [2]list // those that wait, those that are delayed
}

// list is a doubly linked list through the requests' places.
type list struct {
	head, tail *infer.Request
	n          int
}

func newQueue(p *Policy) queue {
	q := queue{levels: make([]level, max(p.Levels, 1))}
	for i := range q.levels {
		q.levels[i].policy = p.Queue
		if own, ok := p.LevelQueue[i+1]; ok && p.Levels > 0 {
			q.levels[i].policy = own
		}
	}
	q.busy = make([]uint64, (len(q.levels)+63)/64)
	return q
}

func (l *level) size() int { return l.lists[0].n + l.lists[1].n }

// push appends r to its level; Place.Level and Place.Deadline are set.
func (q *queue) push(r *infer.Request) {
	q.link(r, waiting)
	q.n++
	q.rows += r.BatchSize
	if r.Place.Deadline != 0 {
		q.deadlines = append(q.deadlines, r)
		r.Place.Heap = len(q.deadlines)
		q.up(len(q.deadlines) - 1)
	}
}

// remove takes r out, which is in the queue.
func (q *queue) remove(r *infer.Request) {
	q.unlink(r)
	q.n--
	q.rows -= r.BatchSize
	q.forget(r)
	r.Place = infer.Place{}
}

// delay moves r, which waits, behind those of its level that wait and those that are delayed already.
func (q *queue) delay(r *infer.Request) {
	q.unlink(r)
	q.forget(r)
	q.link(r, delayed)
}

func (q *queue) link(r *infer.Request, state uint8) {
	l := &q.levels[r.Place.Level].lists[state-waiting]
	r.Place.State = state
	l.push(r)
	if len(q.levels) > 1 {
		q.busy[r.Place.Level/64] |= 1 << (r.Place.Level % 64)
	}
}

func (q *queue) unlink(r *infer.Request) {
	lv := &q.levels[r.Place.Level]
	lv.lists[r.Place.State-waiting].unlink(r)
	if len(q.levels) > 1 && lv.size() == 0 {
		q.busy[r.Place.Level/64] &^= 1 << (r.Place.Level % 64)
	}
}

// first returns the request that is to go first, nil if there is none.
func (q *queue) first() *infer.Request {
	if len(q.levels) == 1 {
		return q.levels[0].head()
	}
	return q.firstFrom(0)
}

func (l *level) head() *infer.Request {
	if r := l.lists[0].head; r != nil {
		return r
	}
	return l.lists[1].head
}

// firstFrom returns the head of the first level from i on that is not empty.
func (q *queue) firstFrom(i int) *infer.Request {
	for w := i / 64; w < len(q.busy); w++ {
		set := q.busy[w]
		if w == i/64 {
			set &= ^uint64(0) << (i % 64)
		}
		if set != 0 {
			return q.levels[w*64+bits.TrailingZeros64(set)].head()
		}
	}
	return nil
}

// after returns the request that goes after r, nil if there is none.
func (q *queue) after(r *infer.Request) *infer.Request {
	if r.Place.Next != nil {
		return r.Place.Next
	}
	if r.Place.State == waiting {
		if next := q.levels[r.Place.Level].lists[1].head; next != nil {
			return next
		}
	}
	if len(q.levels) == 1 {
		return nil
	}
	return q.firstFrom(r.Place.Level + 1)
}

// deadline returns when the first timeout expires, 0 if none will.
func (q *queue) deadline() infer.Stamp {
	if len(q.deadlines) == 0 {
		return 0
	}
	return q.deadlines[0].Place.Deadline
}

// forget takes r's timeout away.
func (q *queue) forget(r *infer.Request) {
	if r.Place.Heap == 0 {
		return
	}
	i, last := r.Place.Heap-1, len(q.deadlines)-1
	if i != last {
		q.swap(i, last)
	}
	q.deadlines[last] = nil
	q.deadlines = q.deadlines[:last]
	r.Place.Heap = 0
	if i != last {
		q.down(i)
		q.up(i)
	}
}

func (q *queue) swap(i, j int) {
	h := q.deadlines
	h[i], h[j] = h[j], h[i]
	h[i].Place.Heap, h[j].Place.Heap = i+1, j+1
}

func (q *queue) up(i int) {
	for h := q.deadlines; i > 0 && h[i].Place.Deadline < h[(i-1)/2].Place.Deadline; i = (i - 1) / 2 {
		q.swap(i, (i-1)/2)
	}
}

func (q *queue) down(i int) {
	h := q.deadlines
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].Place.Deadline < h[c].Place.Deadline {
			c++
		}
		if h[i].Place.Deadline <= h[c].Place.Deadline {
			return
		}
		q.swap(i, c)
		i = c
	}
}
