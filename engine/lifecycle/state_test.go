package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"nereid/engine/model"
	"nereid/engine/repo"
)

// Thousands of random sequences of events of one model: changes with versions that fail or not, refused configurations,
// loads and unloads of the model and of one version, evictions, suspensions, and drains that end at random times. After
// every event the invariants of world.check must hold. NEREID_SOAK=1 runs ten times as many.
func TestStateMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	lives := uint64(2000)
	if os.Getenv("NEREID_SOAK") != "" {
		lives *= 10
	}
	for seed := range lives {
		w := &world{rng: rand.New(rand.NewPCG(seed, 11)), closed: map[*model.Model]bool{}}
		for range 40 {
			w.something()
			if w.fault != "" {
				break
			}
		}
		w.end()
		if w.fault != "" {
			t.Fatalf("life %d: %s\nevents: %#v\nin the end: %+v", seed, w.fault, w.events, w.l)
		}
	}
}

// world stands for the manager: it loads models, and closes those that drain.
type world struct {
	rng      *rand.Rand
	l        life
	events   []event
	loaded   []*model.Model // ever
	draining []leaving
	closed   map[*model.Model]bool
	table    map[int64]*model.Model // as published last
	fault    string
}

func (w *world) fail(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
	}
}

// do is one event.
func (w *world) do(ev event) effects {
	w.events = append(w.events, ev)
	before := w.l
	kept := life{wanted: before.wanted, held: before.held, err: before.err, versions: maps.Clone(before.versions),
		picked: maps.Clone(before.picked)}
	after, fx := next(w.l, ev)
	if !reflect.DeepEqual(before, kept) {
		w.fail("the event changed the life that it was given")
	}
	w.l = after
	if fx.publish {
		w.table = after.serving()
	}
	w.draining = append(w.draining, fx.drain...)
	w.check(fx)
	return fx
}

// check checks the invariants of the state machine.
func (w *world) check(fx effects) {
	if !maps.Equal(w.table, w.l.serving()) {
		w.fail("the table serves %v, the index says %v", w.table, w.l.serving())
	}
	pending := map[int64]int{}
	leaves := map[*model.Model]int{}
	for _, d := range w.draining {
		pending[d.number]++
		if d.model != nil {
			leaves[d.model]++
		}
	}
	for n, v := range w.l.versions {
		if v.serves() != (v.state == Ready) || v.model != nil && v.evicted {
			w.fail("version %d: state %s, model %v, evicted %v", n, v.state, v.model != nil, v.evicted)
		}
		if v.drains != pending[n] {
			w.fail("version %d counts %d drains, there are %d", n, v.drains, pending[n])
		}
		if v.state == Unavailable && v.reason == nil {
			w.fail("version %d is unavailable without a reason", n)
		}
		if v.drains > 0 && v.state == Unavailable && v.reason == errUnloaded {
			w.fail("version %d is unloaded while it drains", n)
		}
		if v.state == Unloading && v.drains == 0 {
			w.fail("version %d is unloading, and nothing drains", n)
		}
	}
	for n := range pending {
		if _, known := w.l.versions[n]; !known {
			w.fail("version %d was forgotten while it drains", n)
		}
	}
	for _, m := range w.table {
		if m != nil && (w.closed[m] || leaves[m] > 0) {
			w.fail("a model that leaves serves: a request would be lost")
		}
	}
	serving := slices.Collect(maps.Values(w.table))
	for _, m := range w.loaded {
		places := leaves[m]
		if slices.Contains(serving, m) {
			places++
		}
		if w.closed[m] {
			places++
		}
		if places != 1 {
			w.fail("a loaded model serves, leaves or is closed %d times: memory would be lost", places)
		}
	}
	for _, n := range fx.gone {
		if v := w.l.versions[n]; v.serves() || v.drains > 0 {
			w.fail("version %d is said to be gone", n)
		}
	}
}

func (w *world) drainOne() {
	if len(w.draining) == 0 {
		return
	}
	i := w.rng.IntN(len(w.draining))
	d := w.draining[i]
	w.draining = slices.Delete(w.draining, i, i+1)
	if d.model != nil {
		w.closed[d.model] = true
	}
	w.do(drained{d.number})
}

func (w *world) version() int64 { return 1 + int64(w.rng.IntN(4)) }

func (w *world) something() {
	switch w.rng.IntN(14) {
	case 0:
		w.do(refused{errors.New("the configuration is broken")})
	case 1:
		w.do(retired{byHand: true})
	case 2:
		w.do(retired{})
	case 3:
		w.do(dropped{w.version()})
		w.do(chosen{w.version(), w.rng.IntN(2) == 0})
	case 4:
		w.do(suspended{errors.New("a step is not there")})
	case 5:
		w.do(eviction{})
	case 6, 7, 8:
		w.drainOne()
	default:
		w.change()
	}
}

// change is a change of the model as the manager makes it; drains may end during it.
func (w *world) change() {
	w.do(claimed{})
	if w.rng.IntN(3) == 0 {
		w.do(whole{})
	}
	src := &repo.Model{Versions: map[int64]repo.Fingerprint{}, Shared: 1, Rest: 1}
	var wanted []int64
	for n := int64(1); n <= 4; n++ {
		if w.rng.IntN(2) == 0 {
			src.Versions[n] = repo.Fingerprint(1 + w.rng.Uint64N(3))
			if w.rng.IntN(4) > 0 {
				wanted = append(wanted, n)
			}
		}
	}
	if len(wanted) == 0 {
		w.do(refused{errors.New("no version is there")})
		return
	}
	before := w.table
	w.do(loading{wanted})
	for _, m := range before {
		if m != nil && w.closed[m] {
			w.fail("what served is closed while its successor loads")
		}
	}
	if !maps.Equal(before, w.table) {
		w.fail("what serves changed before its successor was ready: %v, then %v", before, w.table)
	}
	var results []outcome
	failures := 0
	for _, n := range wanted {
		if w.rng.IntN(3) == 0 {
			w.drainOne()
		}
		r := outcome{number: n}
		switch {
		case w.rng.IntN(3) == 0:
			r.err = errors.New("the file is broken")
			failures++
		case w.l.versions[n].model != nil && w.rng.IntN(2) == 0:
			r.kept = true
		default:
			r.model = &model.Model{}
		}
		results = append(results, r)
	}
	for _, r := range results {
		if r.model != nil {
			w.loaded = append(w.loaded, r.model)
		}
	}
	w.conclude(tried{src: src, wanted: wanted, results: results, at: time.Unix(1, 0), void: failures == len(results) &&
		w.rng.IntN(2) == 0}, before, failures)
}

// conclude ends a change and checks its result.
func (w *world) conclude(ev tried, before map[int64]*model.Model, failures int) {
	w.do(ev)
	for _, r := range ev.results {
		now, serves := w.table[r.number]
		switch {
		case r.model != nil && now != r.model:
			w.fail("version %d was loaded and does not serve", r.number)
		case r.kept && (!serves || now != before[r.number]):
			w.fail("version %d was kept and serves no more", r.number)
		case r.err != nil && before[r.number] != nil && now != before[r.number]:
			w.fail("version %d failed to reload, and the one before does not serve on", r.number)
		}
	}
	for n, m := range before {
		now, serves := w.table[n]
		wanted := slices.Contains(ev.wanted, n)
		switch {
		case failures > 0 && !wanted && (!serves || now != m):
			w.fail("version %d left although not all that was to come came", n)
		case failures == 0 && !wanted && serves:
			w.fail("version %d is not wanted and serves", n)
		}
	}
}

// end closes the manager: no model may be left afterwards.
func (w *world) end() {
	w.do(retired{})
	for len(w.draining) > 0 && w.fault == "" {
		w.drainOne()
	}
	for _, m := range w.loaded {
		if !w.closed[m] {
			w.fail("a model is not closed in the end")
		}
	}
	for n, v := range w.l.versions {
		if v.state != Unavailable {
			w.fail("in the end version %d is %s", n, v.state)
		}
	}
	if len(w.table) != 0 {
		w.fail("in the end the table has %v", w.table)
	}
}
