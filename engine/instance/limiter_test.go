package instance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

type need = inferencepb.ModelRateLimiter_Resource

func limits(priority uint32, needs ...*need) *inferencepb.ModelRateLimiter {
	return &inferencepb.ModelRateLimiter{Priority: priority, Resources: needs}
}

func local(name string, n uint32) *need  { return &need{Name: name, Count: n} }
func global(name string, n uint32) *need { return &need{Name: name, Count: n, Global: true} }

func TestRateLimiterResources(t *testing.T) {
	type joiner struct {
		r      *inferencepb.ModelRateLimiter
		device int
	}
	for _, tt := range []struct {
		name  string
		given []Resource
		join  []joiner
		want  string // of the last one's error; "" for none
		uses  string
	}{
		{name: "C075 as much as the neediest takes",
			join: []joiner{{limits(0, local("R", 3)), 0}, {limits(0, local("R", 5)), 0}, {limits(0, local("R", 1)), 1}},
			uses: "[{R 0 0 5} {R 1 0 1}]"},
		{name: "C075 global ones are one for all devices",
			join: []joiner{{limits(0, global("G", 3)), 0}, {limits(0, global("G", 2)), 1}}, uses: "[{G -2 0 3}]"},
		{name: "C075 global and local under one name",
			join: []joiner{{limits(0, global("R", 1)), 0}, {limits(0, local("R", 1)), 1}},
			want: `Resource "R" is present as both global and device-specific resource in the model configuration.`,
			uses: "[{R -2 0 1}]"},
		{name: "C077 given for each device", given: []Resource{{"R", 4, EveryDevice}},
			join: []joiner{{limits(0, local("R", 3)), 0}, {limits(0, local("R", 4)), 7}},
			uses: "[{R 0 0 4} {R 7 0 4}]"},
		{name: "C077 given for one device", given: []Resource{{"R", 4, 1}, {"R", 2, EveryDevice}},
			join: []joiner{{limits(0, local("R", 1)), 0}, {limits(0, local("R", 4)), 1}},
			uses: "[{R 0 0 2} {R 1 0 4}]"},
		{name: "C077 a global one takes the largest count of its name",
			given: []Resource{{"R", 4, 1}, {"R", 9, GlobalDevice}}, join: []joiner{{limits(0, global("R", 9)), 0}},
			uses: "[{R -2 0 9}]"},
		{name: "C077 too few", given: []Resource{{"R", 4, EveryDevice}}, join: []joiner{{limits(0, local("R", 5)), 0}},
			want: `Resource count for "R" is limited to 4 which will prevent scheduling of one or more model ` +
				`instances, the minimum required count is 5`, uses: "[]"},
		{name: "C077 not given at all", given: []Resource{{"X", 4, EveryDevice}},
			join: []joiner{{limits(0, local("R", 5)), 0}},
			want: `Resource count for "R" is limited to 0 which will prevent scheduling of one or more model ` +
				`instances, the minimum required count is 5`, uses: "[]"},
		{name: "nothing needed", given: []Resource{{"X", 4, EveryDevice}}, join: []joiner{{nil, 0}}, uses: "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLimiter(tt.given)
			var err error
			for i, j := range tt.join {
				if _, err = l.Join(j.r, j.device); err != nil && i != len(tt.join)-1 {
					t.Fatal(err)
				}
			}
			if tt.want == "" && err != nil || tt.want != "" &&
				(status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Join = %v, want %q", err, tt.want)
			}
			if got := fmt.Sprint(append([]Use{}, l.Uses()...)); got != tt.uses {
				t.Errorf("Uses = %s, want %s", got, tt.uses)
			}
		})
	}
}

// In random schedules the instances never hold more than there is, each of them gets its turn, and at the end nothing
// is held.
func TestRateLimiterSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for seed := range uint64(2000) {
		synctest.Test(t, func(t *testing.T) { limiterSchedule(t, rand.New(rand.NewPCG(seed, 11)), seed) })
		if t.Failed() {
			return
		}
	}
}

func limiterSchedule(t *testing.T, rng *rand.Rand, seed uint64) {
	l := NewLimiter(nil)
	names := []string{"A", "B", "C"}
	var mu sync.Mutex
	var wg sync.WaitGroup
	held := map[string]uint32{}
	most := map[string]uint32{}
	granted := 0
	for i := range 2 + rng.IntN(6) {
		device := rng.IntN(2)
		var needs []*need
		for k, name := range names {
			if rng.IntN(2) == 0 {
				needs = append(needs, &need{Name: name, Count: rng.Uint32N(4), Global: k == 2})
			}
		}
		key := func(n *need) string {
			if n.Global {
				return n.Name
			}
			return fmt.Sprint(n.Name, device)
		}
		mu.Lock()
		for _, n := range needs {
			most[key(n)] = max(most[key(n)], n.Count)
		}
		mu.Unlock()
		s, err := l.Join(limits(rng.Uint32N(4), needs...), device)
		if err != nil {
			t.Fatal(err)
		}
		patience, work, own := time.Duration(rng.IntN(20)), time.Duration(1+rng.IntN(9)),
			rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			defer s.Leave()
			for range 20 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				if own.IntN(3) == 0 {
					ctx, cancel = context.WithTimeout(context.Background(), patience)
				}
				err := s.Acquire(ctx, nil)
				cancel()
				if err != nil {
					continue
				}
				mu.Lock()
				granted++
				for _, n := range needs {
					if held[key(n)] += n.Count; held[key(n)] > most[key(n)] {
						t.Errorf("seed %d: %d of %s held, there are %d", seed, held[key(n)], key(n), most[key(n)])
					}
				}
				mu.Unlock()
				time.Sleep(work)
				mu.Lock()
				for _, n := range needs {
					held[key(n)] -= n.Count
				}
				mu.Unlock()
				if own.IntN(4) > 0 {
					s.Renew()
				}
				s.Release()
			}
		})
	}
	start := time.Now()
	wg.Wait()
	if time.Since(start) > time.Hour/2 {
		t.Errorf("seed %d: somebody waited forever", seed)
	}
	if uses := l.Uses(); len(uses) > 0 || len(l.waiting) > 0 || granted == 0 {
		t.Errorf("seed %d: at the end %v is held and %d wait, after %d turns", seed, uses, len(l.waiting), granted)
	}
}

// If one instance at a time can hold a resource, each gets turns by its priority, and waits no longer than the
// priorities allow.
func TestRateLimiterPriorities(t *testing.T) {
	t.Run("C076 priority 2 gets half the turns of priority 1", func(t *testing.T) {
		turns := takeTurns(t, []*inferencepb.ModelRateLimiter{limits(0, local("R", 1)), limits(1, local("R", 1)),
			limits(2, local("R", 1)), limits(4, local("R", 1))})
		for i, want := range []int{400, 400, 200, 100} {
			if turns[i] < want-4 || turns[i] > want+4 {
				t.Errorf("turns %v, want 400, 400, 200, 100 or so", turns)
			}
		}
	})
	t.Run("C076 also of two instances alone", func(t *testing.T) {
		turns := takeTurns(t, []*inferencepb.ModelRateLimiter{limits(1, local("R", 1)), limits(2, local("R", 1))})
		if turns[0] < 725 || turns[0] > 740 {
			t.Errorf("turns %v, want 733 and 367 or so", turns)
		}
	})
	for name, other := range map[string]*inferencepb.ModelRateLimiter{
		"C074 C076 beside one that needs nothing":  limits(9),
		"C074 C076 beside one of another resource": limits(9, local("Q", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			turns := takeTurns(t,
				[]*inferencepb.ModelRateLimiter{limits(1, local("R", 1)), limits(4, local("R", 1)), other})
			if turns[0] < 875 || turns[0] > 885 || turns[2] < 1099 {
				t.Errorf("turns %v, want 880, 220 and 1100 or so", turns)
			}
		})
	}
	t.Run("C074 an instance of two resources does not wait until both have had as many turns", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(nil)
			old, _ := l.Join(limits(9, local("Q", 1)), 0)
			for range 1000 {
				_ = old.Acquire(t.Context(), nil)
				old.Renew()
				old.Release()
			}
			both, _ := l.Join(limits(1, local("Q", 1), local("R", 1)), 0)
			other, _ := l.Join(limits(1, local("R", 1)), 0)
			if err := other.Acquire(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			go func() { _ = both.Acquire(t.Context(), nil) }()
			synctest.Wait()
			n := 0
			for other.Renew() {
				n++
			}
			if n > 3 {
				t.Errorf("the other one ran %d times before it", n)
			}
		})
	})
	t.Run("C074 an instance that needs much is not overtaken by those that need little", func(t *testing.T) {
		turns := takeTurns(t, []*inferencepb.ModelRateLimiter{limits(1, local("R", 4)), limits(1, local("R", 1)),
			limits(1, local("R", 1)), limits(1, local("R", 1))})
		if turns[0] < 400 {
			t.Errorf("turns %v: the first one starves", turns)
		}
	})
	t.Run("C074 an instance that joins late gets no extra turns", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(nil)
			old, _ := l.Join(limits(1, local("R", 1)), 0)
			for range 1000 {
				_ = old.Acquire(t.Context(), nil)
				old.Renew()
				old.Release()
			}
			young, _ := l.Join(limits(1, local("R", 1)), 0)
			if n := alternate(t, young, old); n > 3 {
				t.Errorf("the new one ran %d times before the old one", n)
			}
		})
	})
}

// While another instance holds the resource, one of priority 2 asks before one of priority 1. As in Triton, its first
// turn comes after the other's.
func TestC076_TheFirstTurnIsByPriorityToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(nil)
		join := func(priority uint32) *Slot {
			s, err := l.Join(limits(priority, local("R", 1)), 0)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		holder, second, first := join(1), join(2), join(1)
		if err := holder.Acquire(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		var order []*Slot // one appends at a time: it holds the resource
		for _, s := range []*Slot{second, first} {
			go func() {
				if s.Acquire(t.Context(), nil) == nil {
					order = append(order, s)
					s.Release()
				}
			}()
			synctest.Wait()
		}
		holder.Release()
		synctest.Wait()
		if !slices.Equal(order, []*Slot{first, second}) {
			t.Errorf("the one of priority 2 came first, of %d", len(order))
		}
	})
}

// alternate lets a and b ask all the time and returns how often a ran before b did.
func alternate(t *testing.T, a, b *Slot) (before int64) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var n atomic.Int64
	wg.Go(func() {
		for a.Acquire(ctx, nil) == nil {
			n.Add(1)
			time.Sleep(time.Millisecond)
			a.Renew()
			a.Release()
		}
	})
	wg.Go(func() {
		if b.Acquire(ctx, nil) == nil {
			before = n.Load()
			stop()
			b.Release()
		}
	})
	wg.Wait()
	return before
}

// takeTurns runs instances for 1.1 s of the fake clock, one millisecond each time, and counts the executions of each.
func takeTurns(t *testing.T, groups []*inferencepb.ModelRateLimiter) []int {
	turns := make([]int, len(groups))
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for i, g := range groups {
			s, err := l.Join(g, 0)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for s.held || s.Acquire(ctx, nil) == nil {
					// A turn that is granted as the time ends is not counted: the instance may leave instead.
					if ctx.Err() == nil {
						turns[i]++
					}
					time.Sleep(time.Millisecond)
					if s.Renew(); ctx.Err() != nil {
						s.Release()
					}
				}
			})
		}
		wg.Wait()
	})
	return turns
}

// Resources that are granted at the moment at which the instance stops waiting are returned.
func TestRateLimiterTakesBackLateGrant(t *testing.T) {
	l := NewLimiter(nil)
	a, _ := l.Join(limits(1, local("R", 1)), 0)
	b, _ := l.Join(limits(1, local("R", 1)), 0)
	soon, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for range 500 { // which of two ready channels is seen is chance
		if err := a.Acquire(soon, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Acquire(ctx, nil) }()
		go cancel()
		a.Release()
		if <-done == nil {
			b.Release()
		}
		over := make(chan struct{})
		close(over)
		if err := b.Acquire(soon, over); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if got := fmt.Sprint(l.Uses()); got != "[{R 0 0 1}]" {
		t.Errorf("Uses = %s, want nothing held", got)
	}
}

// Two instances always ask for the resource.
func TestC076_OfEqualTurnsTheHigherPriorityComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(nil)
		order := "" // the one that holds the resource appends
		slots := map[string]*Slot{}
		for name, priority := range map[string]uint32{"a": 1, "b": 2} {
			s, err := l.Join(limits(priority, local("R", 1)), 0)
			if err != nil {
				t.Fatal(err)
			}
			slots[name] = s
		}
		for _, name := range []string{"a", "b"} {
			s := slots[name]
			go func() {
				if s.Acquire(t.Context(), nil) != nil {
					return
				}
				for len(order) < 9 {
					order += name
					time.Sleep(time.Millisecond)
					if !s.Renew() && s.Acquire(t.Context(), nil) != nil {
						return
					}
				}
				s.Release()
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if order != "aabaabaab" {
			t.Errorf("the order is %q", order)
		}
	})
}
