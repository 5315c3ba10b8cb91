package sched

import (
	"container/heap"

	"nereid/engine/infer"
)

// push appends r.
func (l *list) push(r *infer.Request) {
	r.Place.Prev, r.Place.Next = l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.Place.Next = r
	}
	l.tail = r
	l.n++
}

// pushFront puts r before the others.
func (l *list) pushFront(r *infer.Request) {
	r.Place.Prev, r.Place.Next = nil, l.head
	if l.head == nil {
		l.tail = r
	} else {
		l.head.Place.Prev = r
	}
	l.head = r
	l.n++
}

// unlink takes r out, which is in the list, and leaves what is known of its place.
func (l *list) unlink(r *infer.Request) {
	if p := r.Place.Prev; p == nil {
		l.head = r.Place.Next
	} else {
		p.Place.Next = r.Place.Next
	}
	if n := r.Place.Next; n == nil {
		l.tail = r.Place.Prev
	} else {
		n.Place.Prev = r.Place.Prev
	}
	l.n--
}

// remove takes r out, which is in the list. It has no place any more.
func (l *list) remove(r *infer.Request) {
	l.unlink(r)
	r.Place = infer.Place{}
}

// pop takes the first one out; nil: there is none.
func (l *list) pop() *infer.Request {
	r := l.head
	if r != nil {
		l.remove(r)
	}
	return r
}

// sequenceList is a list through the sequences, each of which is in one at most.
type sequenceList struct {
	head, tail *sequence
	n          int
}

// push appends q, which is in no list.
func (l *sequenceList) push(q *sequence) {
	q.in, q.prev, q.next = l, l.tail, nil
	if l.tail == nil {
		l.head = q
	} else {
		l.tail.next = q
	}
	l.tail = q
	l.n++
}

// leave takes q out of the list that it is in, if any.
func (q *sequence) leave() {
	l := q.in
	if l == nil {
		return
	}
	if q.prev == nil {
		l.head = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next == nil {
		l.tail = q.prev
	} else {
		q.next.prev = q.prev
	}
	l.n--
	q.in, q.prev, q.next = nil, nil, nil
}

// deadlines is a heap of the sequences whose wait in the backlog is limited, the first to expire on top.
type deadlines []*sequence

var _ heap.Interface = (*deadlines)(nil)

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline < d[j].deadline }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].heap, d[j].heap = i+1, j+1
}

// Push is for package heap.
func (d *deadlines) Push(x any) {
	q := x.(*sequence)
	*d = append(*d, q)
	q.heap = len(*d)
}

// Pop is for package heap.
func (d *deadlines) Pop() any {
	old := *d
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	q.heap = 0
	return q
}

// forget takes q's deadline away.
func (d *deadlines) forget(q *sequence) {
	if q.heap != 0 {
		heap.Remove(d, q.heap-1)
	}
	q.deadline = 0
}
