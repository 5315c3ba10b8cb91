package whatif

import (
	"slices"
	"time"
)

// Settings are those of dynamic_batching and instance_group in a configuration.
type Settings struct {
	// Dynamic: requests that wait are executed together. Without it, each is executed alone.
	Dynamic       bool
	MaxBatchSize  int // 0 or 1: each request alone
	Preferred     []int
	MaxQueueDelay time.Duration
	Instances     int // at least 1
}

// Predict returns how the recorded requests would fare. speed is how much faster they come: 2 is twice the load.
// beyond is the share of executions, from 0 to 1, with more rows than were ever recorded: their times are a guess.
func (rec *Recording) Predict(s Settings, speed float64) (f Figures, beyond float64) {
	if len(rec.requests) == 0 {
		return f, 0
	}
	m := &machine{settings: s, rec: rec, times: newTimes(rec.took), speed: speed,
		free: make([]time.Duration, max(1, s.Instances)), ran: map[int][]execution{}}
	m.run()
	runs := 0
	for size, list := range m.ran {
		if runs += len(list); size > m.times.largest() {
			beyond += float64(len(list))
		}
	}
	span := max(m.at(len(rec.requests)-1), m.now)
	return figures(m.latencies, m.queued, m.ran, span, len(m.free)), beyond / float64(runs)
}

// machine is a batcher with instances whose clock jumps from event to event.
type machine struct {
	settings Settings
	rec      *Recording
	times    *times
	speed    float64

	now       time.Duration
	head      int             // the first request in the queue
	tail      int             // the first that has not arrived
	free      []time.Duration // for each instance, when it is idle
	latencies []time.Duration
	queued    time.Duration
	ran       map[int][]execution
}

// at returns when a request arrives.
func (m *machine) at(i int) time.Duration {
	return time.Duration(float64(m.rec.requests[i].at) / m.speed)
}

// run lets all requests arrive and waits until they are answered.
func (m *machine) run() {
	for all := len(m.rec.requests); m.head < all; {
		for m.tail < all && m.at(m.tail) <= m.now {
			m.tail++
		}
		wake := time.Duration(-1) // the next event
		sooner := func(t time.Duration) {
			if t > m.now && (wake < 0 || t < wake) {
				wake = t
			}
		}
		if m.tail < all {
			sooner(m.at(m.tail))
		}
		idle := slices.IndexFunc(m.free, func(t time.Duration) bool { return t <= m.now })
		if idle >= 0 && m.head < m.tail {
			n, wait := m.due()
			if n > 0 {
				m.execute(idle, n)
				continue
			}
			sooner(m.now + wait)
		}
		for _, t := range m.free {
			sooner(t)
		}
		m.now = wake
	}
}

// due returns how many requests are executed now; if none, wait is when to look again. The rules are those of
// sched.Dynamic.
func (m *machine) due() (n int, wait time.Duration) {
	s := &m.settings
	if !s.Dynamic || s.MaxBatchSize <= 1 {
		return 1, 0
	}
	largest := s.MaxBatchSize
	if len(s.Preferred) > 0 {
		largest = min(largest, slices.Max(s.Preferred))
	}
	rows, best, full := 0, 0, false
	for i := m.head; i < m.tail; i++ {
		r := m.rec.requests[i].rows
		if n > 0 && best == 0 && rows+r > largest {
			best = n
		}
		if n > 0 && rows+r > s.MaxBatchSize {
			full = true
			break
		}
		rows += r
		n++
		if slices.Contains(s.Preferred, rows) {
			best = n
		}
	}
	age := m.now - m.at(m.head)
	switch late := s.MaxQueueDelay > 0 && age >= s.MaxQueueDelay; {
	case best > 0 && !late:
		return best, 0
	case full || late || s.MaxQueueDelay == 0 || rows >= largest:
		return n, 0
	}
	return 0, s.MaxQueueDelay - age
}

// execute executes the first n requests of the queue on an instance.
func (m *machine) execute(instance, n int) {
	rows := 0
	for i := m.head; i < m.head+n; i++ {
		rows += m.rec.requests[i].rows
	}
	begin := max(m.now, m.at(m.head+n-1)+m.rec.handover)
	took := m.times.draw(rows, time.Duration(float64(begin)*m.speed))
	for i := m.head; i < m.head+n; i++ {
		m.queued += begin - m.at(i)
		m.latencies = append(m.latencies, begin+took-m.at(i)+m.rec.requests[i].around)
	}
	m.ran[rows] = append(m.ran[rows], execution{begin, took})
	m.free[instance] = begin + took + m.rec.pause
	m.head += n
}
