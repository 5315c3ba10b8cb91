package instance

import (
	"context"
	"errors"
	"sync"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// makeAll makes and warms instances, Options.Parallel at once. Their numbers follow the order of places. After the
// first error no more are begun, and those that were made are closed.
func (s *Set) makeAll(ctx context.Context, places []backend.Placement) ([]*run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	made := make([]*run, len(places))
	turns := make(chan struct{}, max(1, s.o.Parallel))
	var wg sync.WaitGroup
	for i, p := range places {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			var err error
			if made[i], err = s.make(ctx, p); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	err := context.Cause(ctx) // of the one that failed first, or that ended ctx
	if err == nil {
		s.number(made)
		return made, nil
	}
	for _, r := range made {
		if r != nil {
			err = errors.Join(err, r.drop())
		}
	}
	return nil, err
}

// number numbers new instances; numbers of closed instances are used again.
func (s *Set) number(made []*run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range made {
		if n := len(s.free); n > 0 {
			r.id, s.free = s.free[n-1], s.free[:n-1]
		} else {
			r.id = s.next
			s.next++
		}
	}
}

// make makes and warms one instance, on a thread with the affinity of its host policy.
func (s *Set) make(ctx context.Context, p backend.Placement) (r *run, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !s.pins(p) {
		return s.build(ctx, p)
	}
	p.Affinity.Run(func(memory, refused error) {
		if refused != nil {
			err = status.Errorf(status.InvalidArg, "host policy %q of instance %s: %w", p.HostPolicy, p.Name, refused)
			return
		}
		if memory != nil {
			s.o.Log.Warn("a host policy holds for cores alone", "instance", p.Name, "policy", p.HostPolicy, "why",
				memory)
		}
		r, err = s.build(ctx, p)
	})
	return r, err
}

// wholeDevice is what instances take of their device if those of one device execute one after the other.
var wholeDevice = &inferencepb.ModelRateLimiter{
	Resources: []*inferencepb.ModelRateLimiter_Resource{{Name: "device", Count: 1}}}

func (s *Set) build(ctx context.Context, p backend.Placement) (*run, error) {
	r := &run{place: p, done: make(chan struct{})}
	if p.Kind == inferencepb.ModelInstanceGroup_KIND_GPU && s.o.Model.Traits().DeviceBlocking && !p.Passive {
		slot, err := s.devices.Join(wholeDevice, p.Device)
		if err != nil {
			return nil, err
		}
		r.slots = append(r.slots, slot)
	}
	// The device comes first: an instance that waits for it must not hold resources that other models need.
	if s.o.Limiter != nil && p.RateLimiter != nil {
		slot, err := s.o.Limiter.Join(p.RateLimiter, p.Device)
		if err != nil {
			return nil, errors.Join(err, r.drop())
		}
		r.slots = append(r.slots, slot)
	}
	inst, err := s.o.Model.NewInstance(ctx, p)
	if err != nil {
		return nil, errors.Join(err, r.drop())
	}
	r.inst = inst
	if s.o.Warmup != nil {
		if err := s.o.Warmup(ctx, p.Name, inst); err != nil {
			return nil, errors.Join(err, r.drop())
		}
	}
	return r, nil
}

// pins reports whether an instance needs its own thread: its host policy restricts threads, and it runs in this
// process.
func (s *Set) pins(p backend.Placement) bool {
	return p.Affinity.Restricts() && !s.o.Model.Traits().OwnProcess
}

// live runs the loop of an instance on a thread with the affinity of its host policy.
func (s *Set) live(p backend.Placement, life func()) {
	if !s.pins(p) {
		life()
		return
	}
	p.Affinity.Run(func(_, err error) {
		if err != nil { // it held when the instance was made
			s.o.Log.Error("an instance runs without its host policy", "instance", p.Name, "policy", p.HostPolicy, "err",
				err)
		}
		life()
	})
}
