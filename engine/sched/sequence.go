package sched

import (
	"context"
	"slices"
	"sync"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Sequences is the sequence batcher: it ties each sequence to a slot of one instance, gives its requests to that instance
// one after the other, and tells the model by control inputs and implicit states where in which sequence it is.
//
// A sequence begins with a request that has the START flag and ends with the execution of one that has the END flag, when
// it was idle for too long, or when a request of it is cancelled in the queue. While all slots are taken, new sequences wait
// in the backlog, in the order in which they came.
type Sequences struct {
	policy SequencePolicy
	compat Policy // for alike
	shape  []int64
	mixed  *infer.States // only of a mutant

	mu      sync.Mutex
	live    map[infer.CorrelationID]*sequence // guarded by mu, as is all below
	seats   []*seats                          // of the attached instances
	backlog sequenceList
	expires deadlines // the sequences of the backlog with a timeout
	idle    sequenceList
	timer   *time.Timer // calls expire; nil until it is needed
	alarm   infer.Stamp // when the timer is set to go off; 0: it is not
	finish  bool        // a sequence for which no request waits is ended
	closed  bool
	none    chan struct{} // closed when no sequence is left; nil: nobody waits for that
	made    uint64        // sequences of requests without a correlation ID so far
	nulls   infer.Nulls
}

var (
	_ Binder      = (*Sequences)(nil)
	_ Rescheduler = (*Sequences)(nil)
	_ Remover     = (*Sequences)(nil)
	_ infer.Queue = (*Sequences)(nil)
)

// sequence is a live one: it waits in the backlog, or has a seat. In its seat it is ready (a request waits), running (its
// request is in the batch that the instance has) or idle.
type sequence struct {
	id     infer.CorrelationID // its text is the sequence's own
	corrid []byte              // the control input
	queue  list                // requests that wait, oldest first; the first one has the START flag if the sequence has not begun
	states *infer.States       // nil if the model has none

	// open: the queue ends in a request without END, so that others without START may follow.
	open bool
	// more: behind the first of the requests that wait there is one that starts anew.
	more bool
	// last: nothing follows in this sequence, although no END says so: it is over when the queue is empty.
	last bool

	seats    *seats // nil: it waits in the backlog
	slot     int
	running  *infer.Request
	again    bool        // the running request is to be executed again
	dropped  bool        // it ended while its request was running
	since    infer.Stamp // when it became idle, or ready
	deadline infer.Stamp // in the backlog; 0: it waits as long as it takes
	heap     int         // index among the deadlines, from 1; 0: it has none

	in         *sequenceList // the list that it is in; nil: none
	next, prev *sequence
}

// NewSequences returns a sequence batcher. The policy comes from a valid configuration.
func NewSequences(p SequencePolicy) *Sequences {
	s := &Sequences{policy: p, compat: p.alike(), shape: p.shape(), live: map[infer.CorrelationID]*sequence{}}
	if !ownStates && len(p.States) > 0 {
		s.mixed = infer.NewStates(p.States)
	}
	return s
}

var (
	errClosed       = status.New(status.Unavailable, "the model version is being unloaded")
	errExpired      = status.New(status.Unavailable, "timeout of the corresponding sequence has been expired")
	errInstanceGone = status.New(status.Unavailable, "the model instance that this sequence ran on is gone; start the sequence again")
)

func errNoStart(r *infer.Request) error {
	return status.Errorf(status.InvalidArg, "inference request for sequence %s to model '%s' must specify the START flag on the first request of the sequence",
		r.Correlation, r.ModelName)
}

// Enqueue admits r; see Scheduler. Errors beside those of Scheduler: InvalidArg for a request of several rows, without a
// correlation ID, with one that the model cannot be told, or of a sequence that has not started. The texts are Triton's.
func (s *Sequences) Enqueue(r *infer.Request) error {
	if err := s.check(r); err != nil {
		return err
	}
	if hidden := s.policy.Shadowed; len(hidden) > 0 {
		r.Inputs = slices.DeleteFunc(r.Inputs, func(in tensor.Tensor) bool { return slices.Contains(hidden, in.Name) })
	}
	r.SetQueue(s)
	now := infer.Now()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	if s.policy.Iterative && r.Correlation.IsZero() {
		s.made++
		r.Correlation, r.Flags = infer.CorrelationID{Number: ownID | s.made}, infer.SequenceStart
	}
	q, start := s.live[r.Correlation], r.Flags&infer.SequenceStart != 0
	if !start && (q == nil || !q.open) {
		s.mu.Unlock()
		return errNoStart(r)
	}
	r.Place, r.Times.Queued = infer.Place{}, now
	if r.Cancelled() {
		var refused []*infer.Request
		if !start { // one of its requests is missing
			s.breakOff(q, nil, &refused)
		}
		s.mu.Unlock()
		r.Fail(errCancelled)
		fail(refused, errCancelled)
		return nil
	}
	if q == nil {
		q = s.begin(r, now)
	}
	s.add(q, r, now)
	s.mu.Unlock()
	return nil
}

// ownID marks the numbers that stand for requests without a correlation ID, so that they meet no client's.
const ownID = 1 << 63

func (s *Sequences) check(r *infer.Request) error {
	if r.BatchSize > 1 {
		return status.Errorf(status.InvalidArg, "inference request to model '%s' must specify batch-size 1 due to requirements of sequence batcher", r.ModelName)
	}
	id := r.Correlation
	if id.IsZero() {
		if s.policy.Iterative {
			return nil
		}
		return status.Errorf(status.InvalidArg, "inference request to model '%s' must specify a non-zero or non-empty correlation ID", r.ModelName)
	}
	if err := id.Check(); err != nil {
		return err
	}
	if dt, number := s.policy.wantsNumber(); number && id.Text != "" {
		return status.Errorf(status.InvalidArg, "correlation ID '%s' for model '%s' must be a number: the model takes it as %s", id.Text, r.ModelName, dt)
	}
	return nil
}

// add puts r behind the other requests of its sequence. s.mu is held.
func (s *Sequences) add(q *sequence, r *infer.Request, now infer.Stamp) {
	r.Retain()
	r.Place.State = waiting
	if r.Timeout > 0 && r.Timeout < endless {
		r.Place.Deadline = now + infer.Stamp(r.Timeout)
	}
	q.more = q.more || q.queue.n > 0 && r.Flags&infer.SequenceStart != 0
	if sequenceOrder {
		q.queue.push(r)
	} else {
		q.queue.pushFront(r)
	}
	q.open, q.last = r.Flags&infer.SequenceEnd == 0, false
	switch {
	case q.seats == nil:
		if !q.more {
			s.limit(q, r.Place.Deadline, now)
		}
	case q.running == nil && q.in != &q.seats.ready:
		s.settle(q, now)
	}
}

// begin makes a sequence and finds it a seat, or a place in the backlog. s.mu is held.
func (s *Sequences) begin(r *infer.Request, now infer.Stamp) *sequence {
	q := &sequence{id: r.Correlation.Clone()}
	for i := range s.policy.Controls {
		if c := &s.policy.Controls[i]; c.Kind == ControlCorrelationID {
			q.corrid = correlation(q.id, c.DataType)
		}
	}
	if len(s.policy.States) > 0 {
		if q.states = s.mixed; s.mixed == nil {
			q.states = infer.NewStates(s.policy.States)
		}
	}
	s.live[q.id] = q
	s.backlog.push(q)
	s.advance(now)
	return q
}

// Cancelled takes a request and those of its sequence that follow it out of the queue, and answers them; see infer.Queue.
func (s *Sequences) Cancelled(r *infer.Request) {
	var refused []*infer.Request
	s.mu.Lock()
	if q := s.live[r.Correlation]; q != nil && r.Place.State == waiting {
		s.breakOff(q, r, &refused)
	}
	s.mu.Unlock()
	fail(refused, errCancelled)
}

// breakOff ends a sequence where r would come, or at its end for nil: r and what follows it, but for later sequences of
// the same ID, leave the queue. s.mu is held.
func (s *Sequences) breakOff(q *sequence, r *infer.Request, refused *[]*infer.Request) {
	for r != nil {
		next := r.Place.Next
		q.queue.remove(r)
		*refused = append(*refused, r)
		if r = next; r != nil && r.Flags&infer.SequenceStart != 0 {
			break
		}
	}
	if r == nil {
		q.open, q.last = false, true
	}
	switch now := infer.Now(); {
	case q.queue.n == 0 && q.running == nil:
		s.end(q, now, refused)
	case q.seats == nil: // what is left of the backlog's keeps its place, with the timeouts of its own
		s.expires.forget(q)
		s.limits(q, now)
	}
}

// Finish ends the sequences for which no request waits, now and from now on. New ones may still begin.
func (s *Sequences) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishLocked()
}

func (s *Sequences) finishLocked() {
	s.finish = true
	for q := s.idle.head; q != nil; q = s.idle.head {
		s.end(q, infer.Now(), nil)
	}
}

// Close admits no more requests, ends the sequences for which none waits, and lets Next return ErrClosed once those of the
// others have run.
func (s *Sequences) Close() {
	var refused []*infer.Request
	s.mu.Lock()
	s.closed = true
	s.finishLocked()
	s.strand(&refused)
	s.wakeAll()
	s.mu.Unlock()
	fail(refused, errClosed)
}

// strand takes the sequences of the backlog out once no instance will come for them. s.mu is held.
func (s *Sequences) strand(refused *[]*infer.Request) {
	if !s.closed || len(s.seats) > 0 {
		return
	}
	for q := s.backlog.head; q != nil; q = s.backlog.head {
		q.giveUp(refused)
		s.end(q, infer.Now(), nil)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// giveUp takes all requests out of a sequence's queue.
func (q *sequence) giveUp(refused *[]*infer.Request) {
	for r := q.queue.pop(); r != nil; r = q.queue.pop() {
		*refused = append(*refused, r)
	}
}

// Holds reports whether a sequence is live that a request without the START flag may continue.
func (s *Sequences) Continues(id infer.CorrelationID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.live[id]
	return q != nil && q.open && !s.closed
}

// Live returns the number of sequences that have begun and not ended, those of the backlog included.
func (s *Sequences) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// Wait waits until no sequence is live, or returns ctx's error. The caller has seen to it that none begins.
func (s *Sequences) Wait(ctx context.Context) error {
	s.mu.Lock()
	if len(s.live) == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.none == nil {
		s.none = make(chan struct{})
	}
	none := s.none
	s.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reschedule puts a request that has just been executed before the others of its sequence; see Rescheduler.
func (s *Sequences) Reschedule(r *infer.Request) error {
	if !s.policy.Iterative {
		return errNotIterative(r)
	}
	r.SetQueue(s) // the backend may have listened meanwhile
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.live[r.Correlation]
	switch {
	case q == nil || q.running != r:
		return errNoStart(r)
	case r.Cancelled():
		return errCancelled
	}
	r.Rewind()
	r.Flags = 0
	r.Place, r.Times.Queued = infer.Place{State: waiting}, infer.Now()
	r.Retain()
	q.queue.pushFront(r)
	q.again = true
	return nil
}

func errNotIterative(r *infer.Request) error {
	return status.Errorf(status.Internal, "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, but model '%s' has no iterative_sequence in its sequence_batching",
		r.ModelName)
}

// fail answers requests that left the queue.
func fail(all []*infer.Request, err error) {
	for _, r := range all {
		r.Fail(err)
		r.Release()
	}
}
