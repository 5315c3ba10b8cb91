package instance

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/sched"
)

// Resize changes the set to new placements while it serves. An instance that is like a placement but for its name stays
// and keeps its name, as in Triton; those of the same name come first. Resize adds instances that are missing, warmed;
// on an error nothing changes. It removes each of the others after its present batch, and waits for these batches until
// ctx ends. An instance to which sequences are bound leaves after the last of them; Resize does not wait for that.
func (s *Set) Resize(ctx context.Context, places []backend.Placement) error {
	stays, missing := s.match(places)
	made, err := s.makeAll(ctx, missing)
	if err != nil {
		return err
	}
	s.begin(made)
	for _, r := range made {
		stays[r] = true
	}
	var kept, gone []*run
	s.mu.Lock()
	for _, r := range s.runs {
		if stays[r] {
			kept = append(kept, r)
		} else {
			gone = append(gone, r)
		}
	}
	s.runs = kept
	s.publishLocked()
	s.gone = slices.DeleteFunc(append(s.gone, gone...), (*run).ended)
	s.mu.Unlock()
	if bound, ok := s.o.Batcher.(sched.Binder); ok {
		for _, r := range gone { // they finish the sequences bound to them; Resize does not wait for that
			if r.place.Passive {
				r.leave()
				continue
			}
			bound.Detach(r.id)
		}
		return nil
	}
	for _, r := range gone {
		r.leave()
	}
	for _, r := range gone {
		select {
		case <-r.done:
		case <-ctx.Done():
		}
	}
	return nil
}

// match finds the instances that stay, and the placements that have none.
func (s *Set) match(places []backend.Placement) (stays map[*run]bool, missing []backend.Placement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stays = map[*run]bool{}
	take := func(fits func(r *run) bool) bool {
		i := slices.IndexFunc(s.runs, func(r *run) bool { return !stays[r] && fits(r) })
		if i >= 0 {
			stays[s.runs[i]] = true
		}
		return i >= 0
	}
	var others []backend.Placement
	for _, p := range places {
		if !take(func(r *run) bool { return r.place.Name == p.Name && alike(r.place, p) }) {
			others = append(others, p)
		}
	}
	for _, p := range others {
		if !take(func(r *run) bool { return alike(r.place, p) }) {
			missing = append(missing, p)
		}
	}
	return stays, missing
}

// alike reports whether two placements differ in their names only.
func alike(a, b backend.Placement) bool {
	devices := func(x, y *inferencepb.ModelInstanceGroup_SecondaryDevice) bool { return proto.Equal(x, y) }
	return a.Kind == b.Kind && a.Device == b.Device && a.HostPolicy == b.HostPolicy && a.Passive == b.Passive &&
		a.SharedThreads == b.SharedThreads && slices.Equal(a.Profiles, b.Profiles) &&
		slices.EqualFunc(a.SecondaryDevices, b.SecondaryDevices, devices) && proto.Equal(a.RateLimiter, b.RateLimiter)
}
