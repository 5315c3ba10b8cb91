package sched

import "nereid/engine/infer"

// queue is a first-in-first-out ring of requests. The zero value is empty.
type queue struct {
	ring []*infer.Request // length: a power of two, or 0
	head int
	n    int
}

func (q *queue) at(i int) *infer.Request { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) push(r *infer.Request) {
	if q.n == len(q.ring) {
		ring := make([]*infer.Request, max(2*len(q.ring), 16))
		for i := range q.n {
			ring[i] = q.at(i)
		}
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = r
	q.n++
}

func (q *queue) pop() *infer.Request {
	r := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return r
}
