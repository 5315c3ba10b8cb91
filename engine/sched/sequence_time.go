package sched

import (
	"container/heap"
	"time"

	"nereid/engine/infer"
)

// limit sees to it that a sequence of the backlog does not wait beyond a moment; 0: there is none. s.mu is held.
func (s *Sequences) limit(q *sequence, at, now infer.Stamp) {
	switch {
	case at == 0:
		return
	case q.heap == 0:
		q.deadline = at
		heap.Push(&s.expires, q)
	case at < q.deadline:
		q.deadline = at
		heap.Fix(&s.expires, q.heap-1)
	}
	s.setAlarm(q.deadline, now)
}

// queueUp puts a sequence behind the backlog. s.mu is held.
func (s *Sequences) queueUp(q *sequence, now infer.Stamp) {
	s.backlog.push(q)
	s.limits(q, now)
}

// limits limits the wait of a sequence of the backlog by the timeouts of its requests, but for those of later sequences
// of the same ID. s.mu is held.
func (s *Sequences) limits(q *sequence, now infer.Stamp) {
	q.more = false
	for r := q.queue.head; r != nil; r = r.Place.Next {
		if r != q.queue.head && r.Flags&infer.SequenceStart != 0 {
			q.more = true
			break
		}
		s.limit(q, r.Place.Deadline, now)
	}
}

// setAlarm has expire called just after a moment. s.mu is held.
func (s *Sequences) setAlarm(at, now infer.Stamp) {
	if s.alarm != 0 && s.alarm <= at {
		return
	}
	s.alarm = at
	wait := max(time.Duration(at-now), 0) + 1
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.expire)
	} else {
		s.timer.Reset(wait)
	}
}

// rest makes q idle. s.mu is held.
func (s *Sequences) rest(q *sequence, now infer.Stamp) {
	q.since = now
	s.idle.push(q)
	if s.policy.Idle < endless {
		s.setAlarm(now+infer.Stamp(s.policy.Idle), now)
	}
}

// expire ends the sequences that were idle or in the backlog for too long. It is the timer's function.
func (s *Sequences) expire() {
	var refused []*infer.Request
	s.mu.Lock()
	s.alarm = 0
	now := infer.Now()
	for len(s.expires) > 0 && s.expires[0].deadline < now {
		q := s.expires[0]
		s.breakOff(q, q.queue.head, &refused)
	}
	if len(s.expires) > 0 {
		s.setAlarm(s.expires[0].deadline, now)
	}
	for q := s.idle.head; q != nil && s.policy.Idle < endless; q = s.idle.head {
		if at := q.since + infer.Stamp(s.policy.Idle); at >= now {
			s.setAlarm(at, now)
			break
		}
		if !idleEnds {
			break
		}
		s.end(q, now, nil)
	}
	s.mu.Unlock()
	fail(refused, errExpired)
}
