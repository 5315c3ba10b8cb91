package instance

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// Devices of a Resource that are no GPU's number.
const (
	EveryDevice  = -1 // so much on each device
	GlobalDevice = -2 // so much on all devices together
)

// Resource is the limit of a resource (--rate-limit-resource).
type Resource struct {
	Name   string
	Count  uint32
	Device int // a number, EveryDevice or GlobalDevice
}

// Limiter is the rate limiter of a server: instances execute at the same time as far as there are resources for them.
// Instances that wait for a resource get weighted turns: one of priority 2 gets half the turns of one of priority 1.
// No instance overtakes another that waits for a resource which both need, so none waits forever. It starts no
// goroutine and is safe for concurrent use.
type Limiter struct {
	explicit []Resource

	mu        sync.Mutex
	slots     map[*Slot]bool // guarded by mu, as is all below
	resources map[resourceKey]*resource
	waiting   []*Slot // by turn; of equal turns the higher priority is first
	seq       uint64
}

type resourceKey struct {
	name   string
	device int // a device's number, or GlobalDevice
}

type resource struct {
	limit, used uint32
	now         uint64 // at least the turn of the latest execution
	wanted      bool   // by an instance that waits and comes first; only inside dispatch
}

// Slot is an instance's place in the limiter. Acquire, Renew and Release are called by one goroutine, in turn.
type Slot struct {
	l        *Limiter
	need     map[resourceKey]uint32
	priority uint64
	grant    chan struct{} // capacity 1
	held     bool          // of the goroutine that calls Acquire, Renew and Release

	next uint64 // guarded by l.mu, as is all below: the turn of its next execution
	turn uint64
	seq  uint64
}

// NewLimiter returns a limiter. Without limits, there is as much of each resource as the instance takes that needs
// most.
func NewLimiter(resources []Resource) *Limiter {
	return &Limiter{explicit: resources, slots: map[*Slot]bool{}, resources: map[resourceKey]*resource{}}
}

// Join adds an instance on a device (0 for the CPU). r is its group's rate limiter. Errors, with Triton's texts:
// InvalidArg if it needs more than there is, or if a resource is global for it and by device for others.
func (l *Limiter) Join(r *inferencepb.ModelRateLimiter, device int) (*Slot, error) {
	s := &Slot{l: l, need: map[resourceKey]uint32{}, priority: uint64(max(r.GetPriority(), 1)),
		grant: make(chan struct{}, 1)}
	for _, need := range r.GetResources() {
		key := resourceKey{need.GetName(), device}
		if need.GetGlobal() {
			key.device = GlobalDevice
		}
		s.need[key] = need.GetCount()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots[s] = true
	limits, err := l.limits()
	if err != nil {
		delete(l.slots, s)
		return nil, err
	}
	l.set(limits)
	s.next = s.now() + s.priority // as after a turn
	return s, nil
}

// Leave removes the instance, which holds nothing.
func (s *Slot) Leave() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	delete(s.l.slots, s)
	limits, err := s.l.limits()
	if err != nil { // it could only get better
		return
	}
	s.l.set(limits)
	s.l.dispatch()
}

// limits computes how much there is of each resource that instances need. l.mu is held.
func (l *Limiter) limits() (map[resourceKey]uint32, error) {
	most := map[resourceKey]uint32{}
	for s := range l.slots {
		for key, n := range s.need {
			most[key] = max(most[key], n)
		}
	}
	keys := make([]resourceKey, 0, len(most))
	for key := range most {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b resourceKey) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.name, b.name))
	})
	for _, key := range keys {
		if len(l.explicit) > 0 {
			there := l.given(key)
			if there < most[key] {
				return nil, status.Errorf(status.InvalidArg,
					"Resource count for \"%s\" is limited to %d which will prevent scheduling of one or more "+
						"model instances, the minimum required count is %d", key.name, there, most[key])
			}
			most[key] = there
		}
	}
	for _, key := range keys {
		if _, both := most[resourceKey{key.name, GlobalDevice}]; both && key.device != GlobalDevice {
			return nil, status.Errorf(status.InvalidArg,
				"Resource \"%s\" is present as both global and device-specific resource in the model configuration.",
				key.name)
		}
	}
	return most, nil
}

// given returns how much of a resource the options give, 0 if they do not name it. As in Triton, a global one takes the
// largest count under its name, whatever the device.
func (l *Limiter) given(key resourceKey) (n uint32) {
	for _, e := range l.explicit {
		if e.Name == key.name && (key.device == GlobalDevice || e.Device == key.device || e.Device == EveryDevice) {
			n = max(n, e.Count)
		}
	}
	return n
}

// set replaces the limits. l.mu is held.
func (l *Limiter) set(limits map[resourceKey]uint32) {
	for key, n := range limits {
		if l.resources[key] == nil {
			l.resources[key] = &resource{}
		}
		l.resources[key].limit = n
	}
	for key := range l.resources {
		if _, needed := limits[key]; !needed { // nor held: only joined instances hold resources
			delete(l.resources, key)
		}
	}
}

// Acquire waits until the instance may execute, and reserves what it needs until Release. It returns ctx's error, or
// nil without holding anything once over is closed: an instance that is closed need not wait.
func (s *Slot) Acquire(ctx context.Context, over <-chan struct{}) error {
	l := s.l
	l.mu.Lock()
	l.await(s)
	l.mu.Unlock()
	var err error
	select {
	case <-s.grant:
		s.held = true
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-over:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, s); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else { // it was granted at the last moment
		<-s.grant
		s.giveBack()
	}
	l.dispatch()
	return err
}

// Release returns what the instance holds, if anything. It did not execute.
func (s *Slot) Release() {
	if !s.held {
		return
	}
	s.held = false
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.giveBack()
	s.l.dispatch()
}

// Renew ends the turn of an instance that has executed, and reports whether the next turn is its own again: then it
// holds what it needs, as after Acquire. Otherwise it holds nothing. If it gave back first and asked later, it would
// always come after the others that wait, whatever its priority.
func (s *Slot) Renew() bool {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.held { // it is closed, and executed nevertheless
		return false
	}
	s.next = s.turn + s.priority
	s.giveBack()
	l.await(s)
	select {
	case <-s.grant:
	default:
		s.held = false
		l.waiting = slices.DeleteFunc(l.waiting, func(w *Slot) bool { return w == s })
		l.dispatch()
	}
	return s.held
}

// now returns the largest turn of the resources that the instance needs. l.mu is held.
func (s *Slot) now() (turn uint64) {
	for key := range s.need {
		turn = max(turn, s.l.resources[key].now)
	}
	return turn
}

// await lets an instance wait for its turn. The turns of its resources become equal first: otherwise those that need
// one of fewer turns would come before it until these are made up for. l.mu is held.
func (l *Limiter) await(s *Slot) {
	now := s.now()
	for key := range s.need {
		l.resources[key].now = now
	}
	s.turn = max(s.next, now)
	l.seq++
	s.seq = l.seq
	at, _ := slices.BinarySearchFunc(l.waiting, s, func(a, b *Slot) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.priority, b.priority), cmp.Compare(a.seq, b.seq))
	})
	l.waiting = slices.Insert(l.waiting, at, s)
	l.dispatch()
}

// giveBack returns the resources of a slot. l.mu is held.
func (s *Slot) giveBack() {
	for key, n := range s.need {
		s.l.resources[key].used -= n
	}
}

// dispatch grants the waiting slots, in the order of their weighted turns, for which all resources are there. l.mu is
// held.
func (l *Limiter) dispatch() {
	l.waiting = slices.DeleteFunc(l.waiting, func(s *Slot) bool {
		free := true
		for key, n := range s.need {
			r := l.resources[key]
			free = free && !r.wanted && r.used+n <= r.limit
		}
		if !free {
			for key := range s.need {
				l.resources[key].wanted = true // those behind it must not take what it waits for
			}
			return false
		}
		for key, n := range s.need {
			r := l.resources[key]
			r.used += n
			r.now = max(r.now, s.turn)
		}
		s.grant <- struct{}{}
		return true
	})
	for _, r := range l.resources {
		r.wanted = false
	}
}

// slots are those of an instance in several limiters. Their methods are those of a slot, for all of them.
type slots []*Slot

func (all slots) acquire(ctx context.Context, over <-chan struct{}) error {
	for _, s := range all {
		if err := s.Acquire(ctx, over); err != nil {
			return err // the caller releases those that are held
		}
	}
	return nil
}

// renew ends the turn in each limiter. It reports whether the next turn is the instance's own in all of them; otherwise
// the instance holds nothing.
func (all slots) renew() bool {
	own := true
	for _, s := range all {
		own = s.Renew() && own
	}
	if !own {
		all.release()
	}
	return own
}

func (all slots) release() {
	for _, s := range all {
		s.Release()
	}
}

func (all slots) leave() {
	for _, s := range all {
		s.Leave()
	}
}

// Use is how much of a resource instances hold now.
type Use struct {
	Name        string
	Device      int // a device's number, or GlobalDevice
	Used, Limit uint32
}

// Uses returns the resources, by name and device.
func (l *Limiter) Uses() (all []Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, r := range l.resources {
		all = append(all, Use{key.name, key.device, r.used, r.limit})
	}
	slices.SortFunc(all, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Device, b.Device))
	})
	return all
}
