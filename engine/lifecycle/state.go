package lifecycle

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// State is the state of a version, as Triton's repository index names it.
type State string

// The states.
const (
	Loading     State = "LOADING"
	Ready       State = "READY"
	Unloading   State = "UNLOADING"
	Unavailable State = "UNAVAILABLE"
)

var errUnloaded = status.New(status.Unavailable, "unloaded")

// life is the state of a model. Only the function next changes it. The manager keeps one for each model and carries out
// the effects.
type life struct {
	wanted bool // it is to be served: counts for readiness
	held   bool // unloaded on request: polling leaves it alone until it is loaded on request or its folder is removed
	err    error
	// versions are all that are known of, by number.
	versions map[int64]standing
	// picked are the versions that were loaded (true) or unloaded (false) individually. They override the version
	// policy until the whole model is loaded.
	picked map[int64]bool
}

// standing is the state of one version.
type standing struct {
	state  State
	reason error
	model  *model.Model // what serves; then state is READY
	// evicted: in service although nothing is loaded; a request loads it. Then state is READY too, and model nil.
	evicted bool
	stub    infer.Served // what requests see of an evicted version
	// What model was loaded from: the version folder, and the model folder's other files, with the configuration and
	// without.
	src, shared, rest repo.Fingerprint

	since   time.Time
	left    error // why it left service, where that was not an unload
	drains  int   // models of this number that left and are not closed yet
	reloads int
}

// serves reports whether requests to the version are taken.
func (s standing) serves() bool { return s.model != nil || s.evicted }

// effects are what the manager does after an event, in this order: it publishes the table of what is in service, and
// closes each model that left as soon as its last request is answered.
type effects struct {
	publish bool
	drain   []leaving
	// reloaded are the versions that took the place of one of the same number.
	reloaded map[int64]bool
	// gone are versions that have no model, not even one that drains: their statistics are removed.
	gone []int64
}

// leaving is a model to be closed once it has answered what it took.
type leaving struct {
	number int64
	model  *model.Model // nil: it was evicted before, there is nothing to close
	why    departure
}

// departure is the reason why a model leaves.
type departure int

const (
	unloaded departure = iota // the version leaves service
	replaced                  // another of its number serves
	evicted                   // it stays in service; the next request loads it
)

// event is something that happens to a model.
type event interface {
	// apply changes l, which only the caller uses, and adds to fx.
	apply(l *life, fx *effects)
}

// next is the state machine of a model: it returns the state after an event, and what is to be done. It is a pure
// function.
func next(l life, ev event) (life, effects) {
	l.versions, l.picked = maps.Clone(l.versions), maps.Clone(l.picked)
	if l.versions == nil {
		l.versions = map[int64]standing{}
	}
	var fx effects
	ev.apply(&l, &fx)
	return l, fx
}

// serving returns what requests can reach.
func (l life) serving() map[int64]*model.Model {
	all := map[int64]*model.Model{}
	for n, v := range l.versions {
		if v.serves() {
			all[n] = v.model
		}
	}
	return all
}

// models returns the loaded versions, ascending.
func (l life) models() []*model.Model {
	var all []*model.Model
	for _, n := range slices.Sorted(maps.Keys(l.versions)) {
		if m := l.versions[n].model; m != nil {
			all = append(all, m)
		}
	}
	return all
}

func (l life) serves() bool {
	for _, v := range l.versions {
		if v.serves() {
			return true
		}
	}
	return false
}

// settled reports whether every version that is to serve does, with its model loaded.
func (l life) settled() bool {
	if l.err != nil {
		return false
	}
	ready := 0
	for _, v := range l.versions {
		switch {
		case v.model != nil && v.reason == nil && !v.lost():
			ready++
		case v.state == Unavailable && v.reason == errUnloaded:
		default:
			return false
		}
	}
	return ready > 0
}

// failed reports whether the last change failed, altogether or for a version.
func (l life) failed() bool {
	for _, v := range l.versions {
		if v.reason != nil && v.reason != errUnloaded {
			return true
		}
	}
	return l.err != nil
}

// lost reports whether a version takes no requests now, or a process of it has ended for good: a load request loads it
// again.
func (s standing) lost() bool {
	if s.model == nil {
		return false
	}
	return s.model.Healthy() != nil ||
		slices.ContainsFunc(s.model.Processes(), func(p backend.Process) bool { return p.Quarantined })
}

// leave takes a version's model out of service.
func (l *life) leave(n int64, why departure, fx *effects) {
	v := l.versions[n]
	fx.publish = true
	fx.drain = append(fx.drain, leaving{n, v.model, why})
	v.drains++
	if why == evicted {
		v.stub = v.model
	}
	v.model, v.evicted = nil, why == evicted
	if why == unloaded {
		v.src, v.shared, v.rest = 0, 0, 0
		v.state, v.reason = Unloading, v.left
	}
	l.versions[n] = v
}

// claimed: the model is to be in service from now on.
type claimed struct{}

func (claimed) apply(l *life, _ *effects) { l.wanted, l.held = true, false }

// chosen: one version is to be in service, or not to be; the others stay as they are.
type chosen struct {
	number int64
	load   bool
}

func (e chosen) apply(l *life, _ *effects) {
	if l.picked == nil {
		l.picked = map[int64]bool{}
	}
	l.picked[e.number] = e.load
}

// whole: the version policy alone determines again which versions are served.
type whole struct{}

func (whole) apply(l *life, _ *effects) { l.picked = nil }

// loading: versions are about to be loaded. One that serves goes on.
type loading struct{ numbers []int64 }

func (e loading) apply(l *life, fx *effects) {
	fx.publish = !l.serves() // requests learn that the model is known
	for _, n := range e.numbers {
		v := l.versions[n]
		if !v.serves() {
			v.state, v.reason = Loading, nil
		}
		l.versions[n] = v
	}
}

// unloadable: there is no room for the versions that were about to be loaded.
type unloadable struct{ err error }

func (e unloadable) apply(l *life, _ *effects) {
	for n, v := range l.versions {
		if v.state == Loading {
			v.state, v.reason = Unavailable, e.err
			l.versions[n] = v
		}
	}
}

// refused: the folder or the configuration is at fault; nothing was tried, what serves goes on.
type refused struct{ err error }

func (e refused) apply(l *life, _ *effects) { l.err = e.err }

// tried: a change came to its end.
type tried struct {
	src     *repo.Model
	wanted  []int64   // the versions that are to serve
	results []outcome // of each of them
	at      time.Time
	// void: no version could be loaded of an override, or of what was to replace the files of an override that serves.
	// What is in service stays as it was; evicted versions too, since their files are still there.
	void bool
}

func (e tried) apply(l *life, fx *effects) {
	fx.publish, fx.reloaded = true, map[int64]bool{}
	failed := false
	for _, r := range e.results {
		failed = failed || r.err != nil
		e.settle(l, r, fx)
	}
	for _, n := range slices.Sorted(maps.Keys(l.versions)) {
		v := l.versions[n]
		// Versions that are no longer wanted leave only if all wanted versions were loaded.
		if v.serves() && !slices.Contains(e.wanted, n) && !failed {
			v.left = nil
			l.versions[n] = v
			l.leave(n, unloaded, fx)
			v = l.versions[n]
		}
		if _, there := e.src.Versions[n]; !there && !v.serves() && v.drains == 0 && v.reason != errUnloaded {
			delete(l.versions, n) // it never served and its folder is gone
		}
	}
	if !e.void {
		l.err = nil
	}
}

func (e tried) settle(l *life, r outcome, fx *effects) {
	v := l.versions[r.number]
	switch {
	case r.err != nil && (v.model != nil || v.evicted && e.void):
		v.reason = status.Errorf(status.CodeOf(r.err), "reload failed, the version loaded before goes on serving: %w",
			r.err)
	case r.err != nil:
		v.state, v.reason, v.evicted = Unavailable, r.err, false
		if v.drains == 0 {
			fx.gone = append(fx.gone, r.number)
		}
	case r.untouched:
	default:
		v.reason = nil
		v.src, v.shared, v.rest = e.src.Versions[r.number], e.src.Shared, e.src.Rest
	}
	if r.stub != nil { // admitted, to be loaded by its first request
		v.state, v.left, v.evicted, v.stub = Ready, nil, true, r.stub
		v.src, v.shared, v.rest = e.src.Versions[r.number], e.src.Shared, e.src.Rest
	}
	l.versions[r.number] = v
	if r.model == nil {
		return
	}
	if v.model != nil {
		fx.reloaded[r.number] = true
		v.reloads++
		l.versions[r.number] = v
		l.leave(r.number, replaced, fx)
		v = l.versions[r.number]
	}
	v.model, v.state, v.since, v.left, v.evicted = r.model, Ready, e.at, nil, false
	l.versions[r.number] = v
}

// retired: the model leaves service as a whole. byHand: it is to stay out of service.
type retired struct{ byHand bool }

func (e retired) apply(l *life, fx *effects) {
	fx.publish = true
	l.wanted, l.err, l.picked = false, nil, nil
	l.held = l.held || e.byHand
	for n := range l.versions {
		l.unload(n, nil, fx)
	}
}

// unload takes one version out of service, or notes that it is to be out of service.
func (l *life) unload(n int64, why error, fx *effects) {
	v := l.versions[n]
	v.left = why
	if !v.serves() && v.drains == 0 {
		v.state, v.reason = Unavailable, cmp.Or(why, errUnloaded)
	}
	l.versions[n] = v
	if v.serves() {
		l.leave(n, unloaded, fx)
	}
}

// dropped: one version leaves service, the others stay.
type dropped struct{ number int64 }

func (e dropped) apply(l *life, fx *effects) {
	fx.publish = true
	if _, known := l.versions[e.number]; known {
		l.unload(e.number, nil, fx)
	}
}

// suspended: a model of this ensemble's steps is missing or does not fit; the ensemble leaves service until it does.
type suspended struct{ why error }

func (e suspended) apply(l *life, fx *effects) {
	fx.publish = true
	for n, v := range l.versions {
		if v.serves() {
			l.unload(n, e.why, fx)
		}
	}
}

// eviction: some versions, or all for nil, are evicted; their next request loads them again.
type eviction struct{ numbers []int64 }

func (e eviction) apply(l *life, fx *effects) {
	for n, v := range l.versions {
		if v.model != nil && (e.numbers == nil || slices.Contains(e.numbers, n)) {
			l.leave(n, evicted, fx)
		}
	}
}

// drained: a model that left is closed.
type drained struct{ number int64 }

func (e drained) apply(l *life, fx *effects) {
	v, known := l.versions[e.number]
	if !known {
		return // the version was forgotten before
	}
	v.drains--
	if v.drains == 0 && v.state == Unloading {
		v.state, v.reason = Unavailable, cmp.Or(v.left, errUnloaded)
	}
	if v.drains == 0 && v.state == Unavailable {
		fx.gone = append(fx.gone, e.number)
	}
	l.versions[e.number] = v
}
