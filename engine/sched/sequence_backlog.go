package sched

import (
	"nereid/engine/infer"
	"nereid/engine/status"
)

var errExpired = status.New(status.Unavailable, "timeout of the corresponding sequence has been expired")

// backlog holds the sequences that wait for a slot, in order of arrival.
type backlog struct {
	list[sequence]
	deadlines deadlines[sequence]
}

func newBacklog() backlog {
	return backlog{list: sequenceList(),
		deadlines: deadlines[sequence]{expiry: func(q *sequence) *infer.Expiry { return &q.expiry }}}
}

// limit sets the deadline of a sequence in the backlog, or brings it forward. 0 is no deadline. s.mu is held.
func (s *Sequences) limit(q *sequence, deadline, now infer.Stamp) {
	if deadline != 0 {
		s.backlog.deadlines.set(q, deadline)
		s.alarm.set(deadline, now)
	}
}

// limitAll sets the deadline of a sequence in the backlog to the earliest one of its requests. Those of later sequences
// with the same ID do not count. s.mu is held.
func (s *Sequences) limitAll(q *sequence, now infer.Stamp) {
	q.restarts = false
	for r := q.queue.head; r != nil; r = r.Place.Next {
		if r != q.queue.head && isStart(r) {
			q.restarts = true
			break
		}
		s.limit(q, r.Place.Deadline, now)
	}
}

// assignBacklog gives the sequences of the backlog slots while there are free ones: the lowest free slot of the
// instance with most free slots. s.mu is held.
func (s *Sequences) assignBacklog(now infer.Stamp) {
	for q := s.backlog.head; q != nil; q = s.backlog.head {
		var best *slots
		for _, b := range s.instances {
			if !b.leaving && !b.down && b.n < s.policy.Slots && (best == nil || b.n < best.n) {
				best = b
			}
		}
		if best == nil {
			return
		}
		q.moveTo(nil)
		s.backlog.deadlines.remove(q)
		best.assign(q)
		if q.queue.n > 0 {
			s.update(q, now)
		}
	}
}

// failBacklog ends the sequences of the backlog if the batcher is closed and no instance is left. s.mu is held.
func (s *Sequences) failBacklog(err error) {
	if !s.closed || len(s.instances) > 0 {
		return
	}
	for q := s.backlog.head; q != nil; q = s.backlog.head {
		s.fail(q, err)
	}
	s.alarm.stop()
}

// fail refuses all queued requests of a sequence and ends it. s.mu is held.
func (s *Sequences) fail(q *sequence, err error) {
	for r := q.queue.head; r != nil; r = q.queue.head {
		q.remove(r)
		s.refuse(r, err)
	}
	s.end(q, infer.Now())
}

// expire ends the sequences that were idle or in the backlog for too long. The alarm calls it.
func (s *Sequences) expire() {
	s.mu.Lock()
	defer s.unlock()
	s.alarm.at = 0
	now := infer.Now()
	q, at := s.backlog.deadlines.first()
	for ; q != nil && at < now; q, at = s.backlog.deadlines.first() {
		s.truncate(q, q.queue.head, errExpired)
	}
	if q != nil {
		s.alarm.set(at, now)
	}
	for q := s.idle.head; q != nil && s.policy.Idle < endless; q = s.idle.head {
		if at := q.since + infer.Stamp(s.policy.Idle); at >= now {
			s.alarm.set(at, now)
			break
		}
		s.end(q, now)
	}
}
