package requestlog

import (
	"context"
	"sync"
	"time"

	"nereid/engine/requests"
	"nereid/store"
)

// Keeper marks slow requests and has requests kept. It is safe for concurrent use, but Run runs once.
type Keeper struct {
	log *requests.Log

	mu     sync.Mutex // guards the following
	next   int64      // of the log: the first record that was not seen
	models map[string]*latencies
	sift   *sifter // nil: nothing is kept
}

// maxModels bounds the models that are known; more are looked at when old ones have been forgotten.
const maxModels = 4096

// New makes a Keeper. keep gets the requests to be kept; it must not wait. nil: none are kept.
func New(log *requests.Log, keep func([]store.Request) bool) *Keeper {
	k := &Keeper{log: log, models: map[string]*latencies{}}
	if keep != nil {
		k.sift = newSifter(keep, time.Now())
	}
	return k
}

// Log returns the log, with the marks of all records so far.
func (k *Keeper) Log() *requests.Log {
	k.collect()
	return k.log
}

// Keeps reports whether requests are kept.
func (k *Keeper) Keeps() bool { return k.sift != nil }

// Run looks at the records as they come, until ctx is done.
func (k *Keeper) Run(ctx context.Context) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		tick := second.C
		if k.collect() {
			tick = nil // an idle server does not wake up for this
		}
		select {
		case <-ctx.Done():
			k.collect()
			return nil
		case <-tick:
		case <-k.log.Half():
		}
	}
}

// collect looks at the new records. It reports whether there were none, so that the next one is awaited.
func (k *Keeper) collect() (idle bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.sift != nil {
		k.sift.begin(now)
		defer k.sift.end()
	}
	var slow []int64
	from := k.next
	k.next, _ = k.log.Since(k.next, func(seq int64, r *requests.Record) {
		if k.see(r, now) {
			slow = append(slow, seq)
			r.Slow = true
		}
		if k.sift != nil {
			k.sift.see(r)
		}
	})
	for _, seq := range slow {
		k.log.Mark(seq)
	}
	return k.next == from && k.log.Await(k.next)
}

// see counts a record and reports whether it is slow. k.mu is held.
func (k *Keeper) see(r *requests.Record, now time.Time) (slow bool) {
	if r.Version == 0 || r.Outcome == requests.Refused {
		return false
	}
	l := k.models[r.Model]
	if l == nil {
		if len(k.models) >= maxModels {
			clear(k.models)
		}
		l = &latencies{}
		k.models[r.Model] = l
	}
	l.advance(now)
	return l.add(r.Ended().Sub(r.Began()), r.Outcome == requests.OK)
}
