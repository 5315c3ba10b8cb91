package sched

import (
	"math"

	"nereid/engine/infer"
)

// Strategy says which requests of a queue share a batch, beyond what the Policy says: Triton's custom batching. Include
// and End are called under the scheduler's lock, one call at a time, and return soon.
type Strategy interface {
	// Include is asked about consecutive requests of the queue. It returns how many of them, from the first on, join
	// the batch that is being formed. If begin is true, it drops that batch first, and begins a new one.
	Include(begin bool, requests []*infer.Request) int
	// End is called when the batch has been taken from the queue.
	End()
	// Close frees the strategy. Its creator calls it after the last batch.
	Close() error
}

// strategic is the batch that a strategy forms. It begins at the head of the queue. Guarded by Dynamic.mu.
type strategic struct {
	strategy Strategy // nil: there is none
	included []*infer.Request
	refused  *infer.Request // the one behind them; nil: none was refused
	ask      []*infer.Request
}

// most returns how many requests the next batch may have by the strategy. It asks the strategy about requests that may
// join by the policy and about which it was not asked yet. The first request always joins, so that the queue does not
// stop. If the head of the queue has changed, a new batch begins. d.mu is held.
func (d *Dynamic) most() int {
	s := &d.strategic
	if s.strategy == nil {
		return math.MaxInt
	}
	if !d.unasked() {
		s.included, s.refused = s.included[:0], nil
		d.unasked()
	}
	if len(s.ask) > 0 {
		begin := len(s.included) == 0
		n := s.strategy.Include(begin, s.ask)
		if begin {
			n = max(n, 1)
		}
		for _, r := range s.ask {
			r.Place.Asked = true
		}
		s.included = append(s.included, s.ask[:n]...)
		if s.refused = nil; n < len(s.ask) {
			s.refused = s.ask[n]
		}
		clear(s.ask)
	}
	return len(s.included)
}

// unasked sets ask to the requests that the strategy is to be asked about. It reports false if those that the strategy
// has included are not the head of the queue any more. d.mu is held.
func (d *Dynamic) unasked() bool {
	s := &d.strategic
	s.ask = s.ask[:0]
	first, rows, n := d.queue.first(), 0, 0
	for r := first; r != nil && (n == 0 || d.fits(first, r, rows)); r = d.queue.after(r) {
		switch {
		case n < len(s.included):
			if s.included[n] != r || !r.Place.Asked {
				return false
			}
		case n == len(s.included) && r == s.refused && r.Place.Asked:
			return true
		default:
			s.ask = append(s.ask, r)
		}
		rows += r.BatchSize
		n++
	}
	return n >= len(s.included)
}

// fits reports whether r may follow requests of so many rows in the batch of the first one. d.mu is held.
func (d *Dynamic) fits(first, r *infer.Request, rows int) bool {
	return rows+r.BatchSize <= d.policy.MaxBatchSize && (!d.compares || d.policy.alike(first, r))
}

// formed tells the strategy that a batch was taken from the queue. d.mu is held.
func (s *strategic) formed() {
	if s.strategy == nil || len(s.included) == 0 {
		return
	}
	clear(s.included)
	s.included, s.refused = s.included[:0], nil
	s.strategy.End()
}
