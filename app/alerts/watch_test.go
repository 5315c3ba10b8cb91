package alerts

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nereid/app/history"
	"nereid/engine/stats"
	"nereid/store"
)

// rig has the real store, recorder and Watch, in the time of a synctest bubble. Only the engine's counters are made.
type rig struct {
	t     *testing.T
	rec   *history.Recorder
	watch *Watch
	store *store.Store

	mu       sync.Mutex
	snaps    []stats.Snapshot
	notified []Alert
	readings []history.Reading
	refused  uint64
}

func (r *rig) Activity() <-chan struct{} { return nil }
func (r *rig) Removed() []stats.Snapshot { return nil }

func (r *rig) Snapshots(dst []stats.Snapshot) []stats.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(dst[:0], r.snaps...)
}

// run runs a test in a bubble, with a Watch.
func run(t *testing.T, test func(*rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		var err error
		if r.store, err = store.Open(t.Context(), dir, store.Options{}); err != nil {
			t.Fatal(err)
		}
		r.rec = history.New(r, r.store)
		r.watch, err = New(t.Context(), Options{Store: r.store, Recorder: r.rec, Log: slog.New(slog.DiscardHandler),
			Readings: func() []history.Reading { r.mu.Lock(); defer r.mu.Unlock(); return r.readings },
			Refused:  func() uint64 { r.mu.Lock(); defer r.mu.Unlock(); return r.refused },
			Notify:   func(a Alert) { r.mu.Lock(); defer r.mu.Unlock(); r.notified = append(r.notified, a) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var tasks sync.WaitGroup
		tasks.Go(func() { _ = r.rec.Run(ctx) })
		tasks.Go(func() { _ = r.watch.Run(ctx) })
		defer func() {
			cancel()
			tasks.Wait()
			if err := r.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(r)
	})
}

// load puts a version in service, in the place of all that are.
func (r *rig) load(version int64) {
	r.mu.Lock()
	kind := history.Load
	if len(r.snaps) > 0 && r.snaps[0].Version == version {
		kind = history.Reload // the counters go on
	} else {
		r.snaps = []stats.Snapshot{{Model: "m", Version: version, Epoch: uint64(version)}}
	}
	r.mu.Unlock()
	r.rec.Event(history.Event{Kind: kind, Model: "m", Version: version})
}

// serve passes seconds with ok successes of a mean time and failed failures each.
func (r *rig) serve(seconds, ok, failed int, mean func() time.Duration) {
	for range seconds {
		r.mu.Lock()
		s := &r.snaps[0]
		for range ok {
			d := mean()
			s.Success.Count++
			s.Success.Ns += uint64(d)
			s.Latency[stats.Bucket(d)]++
		}
		s.Failures[stats.BackendFailure] += uint64(failed)
		r.mu.Unlock()
		time.Sleep(time.Second)
	}
	synctest.Wait()
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// open returns the kinds of the open alerts.
func (r *rig) open() (kinds []Kind) {
	open, _ := r.watch.Alerts()
	for _, a := range open {
		kinds = append(kinds, a.Kind)
	}
	return kinds
}

func (r *rig) want(what string, kinds ...Kind) {
	r.t.Helper()
	if got := r.open(); !slices.Equal(got, kinds) {
		r.t.Fatalf("%s: open alerts %v, want %v", what, got, kinds)
	}
}

// events counts the events of a kind in the history.
func (r *rig) events(kind string) int {
	r.t.Helper()
	if err := r.store.Flush(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	got, err := r.store.Events(context.Background(), store.EventQuery{Kinds: []string{kind}})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(got)
}

func TestFailuresRaiseOneAlertThatEnds(t *testing.T) {
	run(t, func(r *rig) {
		r.load(1)
		r.serve(70, 10, 0, always(time.Millisecond))
		r.want("no failure")
		r.serve(20, 10, 5, always(time.Millisecond))
		r.want("a third fails", Failures)
		// At the limit of 5 %, above and below it by turns, the one alert neither ends nor repeats.
		for range 5 {
			r.serve(10, 95, 8, always(time.Millisecond))
			r.serve(10, 95, 3, always(time.Millisecond))
		}
		r.want("near the limit", Failures)
		r.serve(130, 20, 0, always(time.Millisecond))
		r.want("all succeed")
		if n, ends := r.events(history.Alert), r.events(history.AlertEnded); n != 1 || ends != 1 {
			t.Errorf("%d alerts and %d ends in the history, want one of each", n, ends)
		}
		if len(r.notified) != 2 || r.notified[0].EndUS != 0 || r.notified[1].EndUS == 0 {
			t.Errorf("notified %+v, want the alert and its end", r.notified)
		}
	})
}

func TestRefusedRequestsRaiseAnAlertOfTheServer(t *testing.T) {
	run(t, func(r *rig) {
		refuse := func(seconds, ok, refused int) {
			for range seconds {
				r.mu.Lock()
				r.refused += uint64(refused)
				r.mu.Unlock()
				r.serve(1, ok, 0, always(time.Millisecond))
			}
		}
		r.load(1)
		refuse(61, 100, 8)
		r.want("less than a tenth is refused")
		refuse(10, 1, 60)
		r.want("most of the last seconds are refused", Refused)
		open, _ := r.watch.Alerts()
		if a := open[0]; a.Model != "" || a.Version != 0 || a.Limit != mostRefused || a.Value <= a.Limit {
			t.Errorf("the alert is %+v", a)
		}
		refuse(130, 100, 0)
		r.want("nothing is refused any more")
		if _, past := r.watch.Alerts(); len(past) != 1 || past[0].Value <= past[0].Limit {
			t.Errorf("the ended alert does not say what was wrong: %+v", past)
		}
		ctx := context.Background()
		if err := r.watch.SetRules(ctx, Server, Rules{Rules: map[Kind]Rule{Failures: {Off: true}}}); err == nil {
			t.Error("the server has a rule for the failures of a model")
		}
		if err := r.watch.SetRules(ctx, Server, Rules{Rules: map[Kind]Rule{Refused: {Off: true}}}); err != nil {
			t.Fatal(err)
		}
		refuse(20, 1, 60)
		r.want("the rule is off")
	})
}

// A third of the requests is above the limit, even if it has been so for as long as the model is known.
func TestAModelThatAlwaysFailsKeepsItsAlert(t *testing.T) {
	run(t, func(r *rig) {
		r.load(1)
		r.serve(15*60, 10, 5, always(time.Millisecond))
		if err := r.store.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		limits, err := r.watch.Limits(context.Background(), "m")
		if err != nil || limits[Failures] < leastFailures || limits[Failures] >= 0.33 {
			t.Errorf("the limits are %v (%v), with a third that fails", limits, err)
		}
		r.want("a third fails", Failures)
	})
}

func TestFewFailuresAreNoEvidence(t *testing.T) {
	run(t, func(r *rig) {
		r.load(1)
		r.serve(30, 0, 0, nil)
		r.serve(1, 10, 5, always(time.Millisecond)) // too few requests
		r.serve(70, 0, 0, nil)
		r.serve(60, 10, 0, always(time.Millisecond))
		r.serve(1, 10, 36, always(time.Millisecond)) // 5.6 % of the minute, whose interval reaches below 5 %
		r.want("not certain")
	})
}

func TestLatencyIsComparedWithTheModelsOwnPast(t *testing.T) {
	run(t, func(r *rig) {
		r.load(1)
		slow := 0
		mean := func() time.Duration { // one request in fifty takes 20 ms, the others 2 ms
			if slow++; slow%50 == 0 {
				return 20 * time.Millisecond
			}
			return 2 * time.Millisecond
		}
		r.serve(1000, 5, 0, mean)
		limits, err := r.watch.Limits(r.t.Context(), "m")
		if err != nil || limits[P99] < 20_000 || limits[P99] > 60_000 {
			t.Fatalf("limits %v, %v; want that of p99 to be about twice 20 ms", limits, err)
		}
		r.want("as ever")
		r.serve(60, 5, 0, always(100*time.Millisecond))
		r.want("all take 100 ms", P99)
		r.serve(130, 5, 0, always(2*time.Millisecond))
		r.want("fast again")
	})
}

func TestAVersionThatIsSlowerRaisesExactlyOneAlert(t *testing.T) {
	run(t, func(r *rig) {
		rng := rand.New(rand.NewPCG(1, 2))
		of := func(d time.Duration) func() time.Duration {
			return func() time.Duration { return time.Duration(float64(d) * math.Exp(0.2*rng.NormFloat64())) }
		}
		r.load(1)
		r.serve(100, 20, 0, of(10*time.Millisecond))
		r.load(2)
		r.serve(200, 20, 0, of(12800*time.Microsecond))
		r.want("28 % slower", Version)
		open, _ := r.watch.Alerts()
		a := open[0]
		if !a.Slower || a.FailsMore || a.Version != 2 || a.BeforeVersion != 1 || a.Value < 1.2 || a.Value > 1.36 {
			t.Errorf("alert %+v", a)
		}
		r.load(2) // a reload that changes nothing ends the alert: what served before was as slow
		r.serve(100, 20, 0, of(12800*time.Microsecond))
		r.want("as before the reload")
		r.load(1)
		r.serve(100, 20, 0, of(10*time.Millisecond))
		r.want("faster")
		if n := r.events(history.Alert); n != 1 {
			t.Errorf("%d alerts in the history, want one", n)
		}
	})
}

func TestAVersionThatFailsMoreRaisesExactlyOneAlert(t *testing.T) {
	run(t, func(r *rig) {
		r.load(1)
		r.serve(60, 10, 0, always(time.Millisecond))
		r.load(2)
		r.serve(300, 20, 20, always(9*time.Millisecond)) // far slower, too
		r.want("half of the requests fail", Version)
		open, _ := r.watch.Alerts()
		if a := open[0]; !a.FailsMore || a.FailuresNow != 0.5 || a.FailuresBefore != 0 {
			t.Errorf("alert %+v", a)
		}
		if n := r.events(history.Alert); n != 1 {
			t.Errorf("%d alerts in the history, want one", n)
		}
	})
}

func TestTwentyReloadsWithoutChangeRaiseNoAlert(t *testing.T) {
	run(t, func(r *rig) {
		rng := rand.New(rand.NewPCG(3, 4))
		drift := 0.0 // what a busy machine adds: it lasts some seconds
		mean := func() time.Duration {
			drift = 0.995*drift + 0.01*rng.NormFloat64()
			return time.Duration(float64(5*time.Millisecond) * math.Exp(drift+0.3*rng.NormFloat64()))
		}
		r.load(1)
		for range 20 {
			r.serve(45, 10, 1, mean) // one in eleven fails, always
			r.load(1)
		}
		r.serve(60, 10, 1, mean)
		if n := r.events(history.Reload); n != 20 {
			t.Errorf("%d reloads, want 20", n)
		}
		open, past := r.watch.Alerts()
		for _, a := range append(open, past...) {
			if a.Kind == Version {
				t.Errorf("a reload without change raised %+v", a)
			}
		}
	})
}

func TestMoreLoadIsNotASlowerVersion(t *testing.T) {
	run(t, func(r *rig) {
		r.load(1)
		r.serve(60, 5, 0, always(2*time.Millisecond))
		r.load(2)
		r.serve(100, 50, 0, always(4*time.Millisecond)) // ten times the requests: not comparable
		r.want("ten times the requests")
	})
}

func TestQueueMemoryAndRestarts(t *testing.T) {
	run(t, func(r *rig) {
		rules := Rules{Rules: map[Kind]Rule{Queue: {Limit: 5}, Memory: {Limit: 1000}}}
		if err := r.watch.SetRules(r.t.Context(), "m", rules); err != nil {
			t.Fatal(err)
		}
		r.load(1)
		r.mu.Lock()
		r.snaps[0].Pending = 9
		r.mu.Unlock()
		r.serve(40, 1, 0, always(time.Millisecond))
		r.want("nine wait", Queue)
		for range 3 {
			r.rec.Event(history.Event{Kind: history.ProcessEnded, Model: "m", Version: 1})
		}
		r.mu.Lock()
		r.snaps[0].Pending = 0
		r.readings = []history.Reading{{Name: history.Memory, Model: "m", Value: 2000}}
		r.mu.Unlock()
		r.serve(130, 1, 0, always(time.Millisecond))
		got := r.open()
		slices.Sort(got)
		if !slices.Equal(got, []Kind{Memory, Restarts}) {
			t.Fatalf("open alerts %v, want those of memory and restarts", got)
		}
		r.mu.Lock()
		r.readings[0].Value = 500
		r.mu.Unlock()
		r.serve(700, 1, 0, always(time.Millisecond))
		r.want("ten minutes later")
	})
}

func TestRulesAreKeptAndSilenceNotifies(t *testing.T) {
	run(t, func(r *rig) {
		for name, bad := range map[string]Rules{
			"unknown kind":    {Rules: map[Kind]Rule{"heat": {}}},
			"negative":        {Rules: map[Kind]Rule{P99: {Limit: -1}}},
			"no number":       {Rules: map[Kind]Rule{P99: {Limit: math.NaN()}}},
			"more than all":   {Rules: map[Kind]Rule{Failures: {Limit: 1}}},
			"a version limit": {Rules: map[Kind]Rule{Version: {Limit: 2}}},
		} {
			if r.watch.SetRules(r.t.Context(), "m", bad) == nil {
				t.Errorf("rules with %s are kept", name)
			}
		}
		quiet := Rules{SilencedUntilMS: time.Now().Add(time.Hour).UnixMilli()}
		if err := r.watch.SetRules(r.t.Context(), "m", quiet); err != nil {
			t.Fatal(err)
		}
		r.load(1)
		r.serve(70, 1, 9, always(time.Millisecond))
		r.want("nearly all fail", Failures)
		if len(r.notified) != 0 {
			t.Errorf("a silenced model notified %+v", r.notified)
		}
		again, err := New(r.t.Context(), r.watch.o)
		if err != nil {
			t.Fatal(err)
		}
		again.remove()
		if open, _ := again.Alerts(); len(open) != 1 || again.Rules("m").SilencedUntilMS != quiet.SilencedUntilMS {
			t.Errorf("after a restart: alerts %+v, rules %+v", open, again.Rules("m"))
		}
		if err := r.watch.SetRules(r.t.Context(), "m", Rules{Rules: map[Kind]Rule{Failures: {Off: true}}}); err != nil {
			t.Fatal(err)
		}
		r.serve(2, 1, 9, always(time.Millisecond))
		r.want("the rule is off")
	})
}

func TestADismissedAlertStaysAway(t *testing.T) {
	run(t, func(r *rig) {
		r.load(1)
		r.serve(70, 1, 9, always(time.Millisecond))
		open, _ := r.watch.Alerts()
		if err := r.watch.Dismiss(r.t.Context(), open[0].ID); err != nil {
			t.Fatal(err)
		}
		r.serve(30, 1, 9, always(time.Millisecond))
		r.want("dismissed, and as before")
		r.serve(130, 50, 0, always(time.Millisecond))
		r.serve(30, 1, 9, always(time.Millisecond))
		r.want("well in between", Failures)
		if err := r.watch.Dismiss(r.t.Context(), open[0].ID); err == nil {
			t.Error("an alert is dismissed twice")
		}
	})
}

func TestAnIdleVersionIsComparedAgainWhenItHasRequests(t *testing.T) {
	run(t, func(r *rig) {
		r.load(1)
		r.serve(100, 20, 0, always(10*time.Millisecond))
		r.load(2)
		r.serve(30*60, 0, 0, nil)
		if next := r.watch.comparisons[key{"m", 2}].nextUS; next > time.Now().Add(-20*time.Minute).UnixMicro() {
			t.Error("a version without requests was looked at in the last 20 minutes")
		}
		r.serve(150, 20, 0, always(20*time.Millisecond))
		r.want("twice as slow", Version)
	})
}

func TestTheClockMayBeSetBack(t *testing.T) {
	run(t, func(r *rig) {
		r.load(1)
		r.serve(70, 1, 9, always(time.Millisecond))
		r.want("nearly all fail", Failures)
		now := time.Now().Truncate(time.Second)
		second := func(n int) {
			at := now.AddDate(-10, 0, 0).Add(time.Duration(n) * time.Second)
			r.watch.second(r.t.Context(), history.Second{StartUS: at.UnixMicro(), Pending: []int64{0},
				Samples: []store.Sample{{Model: "m", Version: 1, Requests: 10, Successes: 10}}})
		}
		for n := range 100 {
			second(n)
		}
		if n := len(r.watch.versions[key{"m", 1}].seconds); n != 60 {
			t.Errorf("%d seconds are kept, want 60", n)
		}
		for n := range 30 {
			second(100 + n)
		}
		r.want("all succeed for two minutes by the new clock")
	})
}
