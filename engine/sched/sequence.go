package sched

import (
	"context"
	"slices"
	"sync"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Sequences is the sequence batcher. It binds each sequence to a slot of one instance and gives the sequence's
// requests to that instance one after the other. Control inputs and implicit states say which sequence a request
// belongs to, and where it begins and ends.
//
// A sequence begins with a request that has the START flag. It ends after the execution of a request with the END flag.
// It also ends when it has been idle for too long, or when one of its requests is cancelled in the queue. While all
// slots are taken, new sequences wait in the backlog, in order of arrival.
type Sequences struct {
	policy          SequencePolicy
	shape           []int64 // of control inputs
	correlationType tensor.DataType

	mu        sync.Mutex
	live      map[infer.CorrelationID]*sequence // guarded by mu, as is all below
	instances []*slots                          // of the attached instances
	backlog   backlog
	idle      list[sequence]
	alarm     alarm     // for the first sequence that expires, idle or in the backlog
	refused   []refusal // see unlock
	finishing bool      // a sequence without queued requests is ended
	closed    bool
	empty     chan struct{} // closed when no sequence is left; nil: nobody waits for that
	generated uint64        // the number of correlation IDs that were made for requests without one
	nulls     infer.Nulls
}

var (
	_ Binder      = (*Sequences)(nil)
	_ Rescheduler = (*Sequences)(nil)
	_ Remover     = (*Sequences)(nil)
	_ infer.Queue = (*Sequences)(nil)
)

// sequence is a live sequence. It is in the backlog, or has a slot. A sequence with a slot is ready (a request is
// queued), running (a request is in the instance's batch) or idle.
type sequence struct {
	id          infer.CorrelationID // its text is a copy
	correlation []byte              // the control input
	queue       list[infer.Request] // oldest first; the first one has the START flag if the sequence has not begun
	states      *infer.States       // nil if the model has none

	// open: the last request in the queue has no END flag, so requests without START may follow.
	open bool
	// restarts: a request behind the first one in the queue has the START flag.
	restarts bool
	// last: the sequence ends when the queue is empty, although no request has the END flag.
	last bool
	// roams: the request with the START flag named no version.
	roams bool

	slots       *slots // nil: it is in the backlog
	slot        int
	running     *infer.Request
	rescheduled bool        // the running request is in the queue again
	ended       bool        // it ended while a request was running
	since       infer.Stamp // when it became idle, or ready
	expiry      infer.Expiry

	in    *list[sequence] // the list that it is in; nil: none
	links infer.Links[sequence]
}

func sequenceList() list[sequence] {
	return list[sequence]{links: func(q *sequence) *infer.Links[sequence] { return &q.links }}
}

// moveTo moves a sequence to the end of a list, nil: to none.
func (q *sequence) moveTo(l *list[sequence]) {
	if q.in != nil {
		q.in.remove(q)
	}
	if q.in = l; l != nil {
		l.push(q)
	}
}

// remove removes a request from the queue.
func (q *sequence) remove(r *infer.Request) {
	q.queue.remove(r)
	r.Place = infer.Place{}
}

func isStart(r *infer.Request) bool { return r.Flags&infer.SequenceStart != 0 }

func isEnd(r *infer.Request) bool { return r.Flags&infer.SequenceEnd != 0 }

// NewSequences returns a sequence batcher. The policy comes from a valid configuration.
func NewSequences(p SequencePolicy) *Sequences {
	s := &Sequences{policy: p, shape: p.controlShape(), correlationType: p.correlationType(),
		live: map[infer.CorrelationID]*sequence{}, idle: sequenceList(), backlog: newBacklog()}
	s.alarm.f = s.expire
	return s
}

var errInstanceGone = status.New(status.Unavailable,
	"the model instance that this sequence ran on is gone; start the sequence again")

func errNoStart(r *infer.Request) error {
	return status.Errorf(status.InvalidArg,
		"inference request for sequence %s to model '%s' must specify the START flag "+
			"on the first request of the sequence", r.Correlation, r.ModelName)
}

// refusal is a request that has left the queue, and the error for its caller.
type refusal struct {
	r   *infer.Request
	err error
}

func (s *Sequences) refuse(r *infer.Request, err error) {
	s.refused = append(s.refused, refusal{r, err})
}

// unlock unlocks s.mu and then answers the requests that were refused meanwhile.
func (s *Sequences) unlock() {
	refused := s.refused
	s.refused = nil
	s.mu.Unlock()
	for _, x := range refused {
		fail([]*infer.Request{x.r}, x.err)
	}
}

// Enqueue admits r; see Scheduler. It also returns InvalidArg if r has several rows, if its correlation ID is missing
// or not of the model's type, or if its sequence has not started. The texts are Triton's.
func (s *Sequences) Enqueue(r *infer.Request) error {
	if err := s.Check(r); err != nil {
		return err
	}
	if hidden := s.policy.Shadowed; len(hidden) > 0 {
		r.Inputs = slices.DeleteFunc(r.Inputs, func(in tensor.Tensor) bool { return slices.Contains(hidden, in.Name) })
	}
	r.SetQueue(s)
	now := infer.Now()
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return errClosed
	}
	if s.policy.Iterative && r.Correlation.IsZero() {
		s.generated++
		r.Correlation = infer.CorrelationID{Number: generatedID | s.generated}
		r.Flags = infer.SequenceStart
	}
	q := s.live[r.Correlation]
	if !isStart(r) && (q == nil || !q.open) {
		return errNoStart(r)
	}
	r.Place, r.Times.Queued = infer.Place{}, now
	if r.Cancelled() {
		if !isStart(r) { // the sequence lacks one of its requests
			s.truncate(q, nil, errCancelled)
		}
		s.refuse(r.Retain(), errCancelled)
		return nil
	}
	if q == nil {
		q = s.begin(r, now)
	}
	s.add(q, r, now)
	return nil
}

// generatedID marks the correlation IDs that Sequences makes for requests without one.
const generatedID = 1 << 63

// Check reports what Enqueue would refuse in r itself, whatever sequences are live.
func (s *Sequences) Check(r *infer.Request) error {
	if r.BatchSize > 1 {
		return status.Errorf(status.InvalidArg, "inference request to model '%s' must specify batch-size 1 due to "+
			"requirements of sequence batcher", r.ModelName)
	}
	id := r.Correlation
	if id.IsZero() {
		if s.policy.Iterative {
			return nil
		}
		return status.Errorf(status.InvalidArg,
			"inference request to model '%s' must specify a non-zero or non-empty correlation ID", r.ModelName)
	}
	if err := id.Check(); err != nil {
		return err
	}
	if dt := s.correlationType; id.Text != "" && dt != tensor.Invalid && dt != tensor.Bytes {
		return status.Errorf(status.InvalidArg,
			"correlation ID '%s' for model '%s' must be a number: the model takes it as %s",
			id.Text, r.ModelName, dt)
	}
	return nil
}

// begin makes a sequence and gives it a slot, or a place in the backlog. s.mu is held.
func (s *Sequences) begin(r *infer.Request, now infer.Stamp) *sequence {
	q := &sequence{id: r.Correlation.Clone(), queue: requestList()}
	q.correlation = correlation(q.id, s.correlationType)
	if len(s.policy.States) > 0 {
		q.states = infer.NewStates(s.policy.States)
	}
	s.live[q.id] = q
	q.moveTo(&s.backlog.list)
	s.assignBacklog(now)
	return q
}

// add appends r to its sequence. s.mu is held.
func (s *Sequences) add(q *sequence, r *infer.Request, now infer.Stamp) {
	r.Retain()
	r.Place.State = waiting
	if r.Timeout > 0 && r.Timeout < endless {
		r.Place.Deadline = now + infer.Stamp(r.Timeout)
	}
	q.restarts = q.restarts || q.queue.n > 0 && isStart(r)
	q.queue.push(r)
	q.open, q.last = !isEnd(r), false
	if isStart(r) {
		q.roams = r.Version < 0
	}
	switch {
	case q.slots == nil && !q.restarts:
		s.limit(q, r.Place.Deadline, now)
	case q.slots != nil && q.running == nil && q.in != &q.slots.ready:
		s.update(q, now)
	}
}

// Cancelled removes a request and the requests of its sequence that follow it from the queue, and answers them; see
// infer.Queue.
func (s *Sequences) Cancelled(r *infer.Request) {
	s.mu.Lock()
	defer s.unlock()
	if q := s.live[r.Correlation]; q != nil && r.Place.State == waiting {
		s.truncate(q, r, errCancelled)
	}
}

// truncate ends a sequence before request r, or after its last request if r is nil. It refuses r and the requests that
// follow it, except those of later sequences with the same ID. s.mu is held.
func (s *Sequences) truncate(q *sequence, r *infer.Request, err error) {
	for r != nil {
		next := r.Place.Next
		q.remove(r)
		s.refuse(r, err)
		if r = next; r != nil && isStart(r) {
			break
		}
	}
	if r == nil {
		q.open, q.last = false, true
	}
	switch now := infer.Now(); {
	case q.queue.n == 0 && q.running == nil:
		s.end(q, now)
	case q.slots == nil: // it keeps its place in the backlog
		s.backlog.deadlines.remove(q)
		s.limitAll(q, now)
	}
}

// update sets the state of a sequence that has a slot and is not running: it becomes ready or idle, or it ends. s.mu is
// held.
func (s *Sequences) update(q *sequence, now infer.Stamp) {
	q.moveTo(nil)
	q.since = now
	switch {
	case q.queue.n > 0:
		q.moveTo(&q.slots.ready)
		q.slots.signal()
	case q.last || s.finishing:
		s.end(q, now)
	default:
		q.moveTo(&s.idle)
		if s.policy.Idle < endless {
			s.alarm.set(now+infer.Stamp(s.policy.Idle), now)
		}
	}
}

// end ends a sequence that has no further requests. If its queue contains the next sequence of the same ID, that one
// goes to the end of the backlog. Requests before it are refused. s.mu is held.
func (s *Sequences) end(q *sequence, now infer.Stamp) {
	for r := q.queue.head; r != nil && !isStart(r); r = q.queue.head {
		q.remove(r)
		s.refuse(r, errNoStart(r))
	}
	q.moveTo(nil)
	s.backlog.deadlines.remove(q)
	b := q.slots
	if b != nil {
		b.free(q)
	}
	if q.queue.n > 0 {
		q.last = false
		q.moveTo(&s.backlog.list)
		s.limitAll(q, now)
	} else {
		delete(s.live, q.id)
		q.ended = true
		q.release()
	}
	s.assignBacklog(now)
	if b != nil && b.leaving && b.n == 0 {
		b.signal()
	}
	if len(s.live) > 0 {
		return
	}
	if s.closed {
		s.wakeAll()
	}
	if s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// release releases the states of a sequence that has ended, unless a request of it is running.
func (q *sequence) release() {
	if q.ended && q.running == nil && q.states != nil {
		q.states.Release()
	}
}

// Finish ends the sequences that have no queued requests. From then on, a sequence ends as soon as its queue is empty.
// New ones may still begin.
func (s *Sequences) Finish() {
	s.mu.Lock()
	defer s.unlock()
	s.finish()
}

func (s *Sequences) finish() {
	s.finishing = true
	for q := s.idle.head; q != nil; q = s.idle.head {
		s.end(q, infer.Now())
	}
}

// Close admits no more requests and ends the sequences without queued requests. Next returns ErrClosed when the
// requests of the others have been executed.
func (s *Sequences) Close() {
	s.mu.Lock()
	defer s.unlock()
	s.closed = true
	s.finish()
	s.failBacklog(errClosed)
	s.wakeAll()
}

// Continues reports whether a request without the START flag may continue a sequence.
func (s *Sequences) Continues(id infer.CorrelationID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.live[id]
	return q != nil && q.open && !s.closed
}

// Roams reports whether a sequence may be continued that was started without a version of the model.
func (s *Sequences) Roams(id infer.CorrelationID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.live[id]
	return q != nil && q.open && q.roams
}

// EndSequence ends a sequence after its queued requests.
func (s *Sequences) EndSequence(id infer.CorrelationID) {
	s.mu.Lock()
	defer s.unlock()
	if q := s.live[id]; q != nil && q.open {
		s.truncate(q, nil, nil)
	}
}

// Live returns the number of sequences that have begun and not ended, including those in the backlog.
func (s *Sequences) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// Wait waits until no sequence is live, or returns ctx's error. The caller makes sure that none begins.
func (s *Sequences) Wait(ctx context.Context) error {
	s.mu.Lock()
	if len(s.live) == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reschedule puts a request that was executed at the head of the queue of its sequence; see Rescheduler.
func (s *Sequences) Reschedule(r *infer.Request) error {
	if !s.policy.Iterative {
		return status.Errorf(status.Internal,
			"Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, but model "+
				"'%s' has no iterative_sequence in its sequence_batching", r.ModelName)
	}
	r.SetQueue(s) // the backend may have set another one
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
	q.queue.pushFront(r.Retain())
	q.rescheduled = true
	return nil
}
