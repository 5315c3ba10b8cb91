package sched

import (
	"container/heap"
	"time"

	"nereid/engine/infer"
)

// list is a doubly linked list of items that hold their own links. An item is in at most one list.
type list[T any] struct {
	head, tail *T
	n          int
	links      func(*T) *infer.Links[T]
}

// requestList is a list of requests.
func requestList() list[infer.Request] {
	return list[infer.Request]{links: func(r *infer.Request) *infer.Links[infer.Request] { return &r.Place.Links }}
}

// push appends x.
func (l *list[T]) push(x *T) {
	*l.links(x) = infer.Links[T]{Prev: l.tail}
	if l.tail == nil {
		l.head = x
	} else {
		l.links(l.tail).Next = x
	}
	l.tail = x
	l.n++
}

// pushFront puts x before the others.
func (l *list[T]) pushFront(x *T) {
	*l.links(x) = infer.Links[T]{Next: l.head}
	if l.head == nil {
		l.tail = x
	} else {
		l.links(l.head).Prev = x
	}
	l.head = x
	l.n++
}

// remove removes x, which is in the list.
func (l *list[T]) remove(x *T) {
	at := l.links(x)
	if at.Prev == nil {
		l.head = at.Next
	} else {
		l.links(at.Prev).Next = at.Next
	}
	if at.Next == nil {
		l.tail = at.Prev
	} else {
		l.links(at.Next).Prev = at.Prev
	}
	*at = infer.Links[T]{}
	l.n--
}

// deadlines is a heap of items by their deadline.
type deadlines[T any] struct {
	items  []*T
	expiry func(*T) *infer.Expiry
}

var _ heap.Interface = (*deadlines[int])(nil)

// Len, Less, Swap, Push and Pop are called by package heap only.
func (d *deadlines[T]) Len() int { return len(d.items) }

func (d *deadlines[T]) Less(i, j int) bool {
	return d.expiry(d.items[i]).Deadline < d.expiry(d.items[j]).Deadline
}

func (d *deadlines[T]) Swap(i, j int) {
	d.items[i], d.items[j] = d.items[j], d.items[i]
	d.expiry(d.items[i]).Heap, d.expiry(d.items[j]).Heap = i+1, j+1
}

func (d *deadlines[T]) Push(x any) {
	d.items = append(d.items, x.(*T))
	d.expiry(x.(*T)).Heap = len(d.items)
}

func (d *deadlines[T]) Pop() any {
	last := len(d.items) - 1
	x := d.items[last]
	d.items[last] = nil
	d.items = d.items[:last]
	d.expiry(x).Heap = 0
	return x
}

// set adds x with a deadline, or brings its deadline forward.
func (d *deadlines[T]) set(x *T, at infer.Stamp) {
	switch e := d.expiry(x); {
	case e.Heap == 0:
		e.Deadline = at
		heap.Push(d, x)
	case at < e.Deadline:
		e.Deadline = at
		heap.Fix(d, e.Heap-1)
	}
}

// remove removes the deadline of x, if it has one.
func (d *deadlines[T]) remove(x *T) {
	e := d.expiry(x)
	if e.Heap != 0 {
		heap.Remove(d, e.Heap-1)
	}
	e.Deadline = 0
}

// first returns the item with the first deadline, nil if there is none, and that deadline.
func (d *deadlines[T]) first() (*T, infer.Stamp) {
	if len(d.items) == 0 {
		return nil, 0
	}
	return d.items[0], d.expiry(d.items[0]).Deadline
}

// endless is a timeout that is never reached. Adding a longer one to a stamp could overflow.
const endless = 100 * 365 * 24 * time.Hour

// alarm calls a function at the first of the moments that are set. The scheduler's lock guards it.
type alarm struct {
	f     func()
	timer *time.Timer // nil until it is needed
	at    infer.Stamp // when the timer fires; 0: it is not set
}

// set has the function called just after a moment, if nothing earlier is set. The function must set at to 0.
func (a *alarm) set(at, now infer.Stamp) {
	if a.at != 0 && a.at <= at {
		return
	}
	a.at = at
	wait := at.Sub(now) + 1
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.f)
	} else {
		a.timer.Reset(wait)
	}
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
