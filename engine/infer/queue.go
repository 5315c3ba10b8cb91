package infer

// Place is a request's position in its scheduler's queue. Only that scheduler uses it, under its own lock.
type Place struct {
	Links[Request]
	Expiry
	Level int   // index of its priority level
	State uint8 // the scheduler's; 0: it does not wait
	Asked bool  // the batching strategy was asked about it
}

// Links are the neighbours of a T in a linked list.
type Links[T any] struct{ Next, Prev *T }

// Expiry is the end of a wait, and its position in the scheduler's heap of deadlines.
type Expiry struct {
	Deadline Stamp // 0: none
	Heap     int   // index in the heap, from 1; 0: it is not there
}

// Queue is where a request waits.
type Queue interface {
	// Cancelled removes the request from the queue if it is still there. Cancel calls it on its own goroutine, without
	// a lock and with a reference on r.
	Cancelled(r *Request)
}
