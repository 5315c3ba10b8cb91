package instance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
)

// startLimited starts a set of a model whose executions take a millisecond, each counted in running.
func startLimited(t *testing.T, running, most *atomic.Int32, set func(*Options, *fake)) (Options, *Set) {
	m := &fake{execute: func(b *infer.Batch) error {
		now := running.Add(1)
		defer running.Add(-1)
		for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
		}
		time.Sleep(time.Millisecond)
		return answer(b)
	}}
	o := options(m)
	set(&o, m)
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return o, s
}

// limitedSet is such a set with n instances.
func limitedSet(t *testing.T, l *Limiter, r *inferencepb.ModelRateLimiter, n int, running, most *atomic.Int32) (Options,
	*Set) {
	return startLimited(t, running, most, func(o *Options, _ *fake) {
		o.Limiter = l
		for i := range n {
			o.Placements = append(o.Placements, backend.Placement{Name: fmt.Sprint("m_", i), RateLimiter: r})
		}
	})
}

// enqueue sends a request with a number of rows.
func enqueue(t *testing.T, o Options, rows int) *infer.Request {
	q := infer.NewDetached()
	q.BatchSize = rows
	if err := o.Batcher.Enqueue(q); err != nil {
		t.Fatal(err)
	}
	return q
}

// Instances of two models that each need all of a resource never execute at the same time. Every request is answered,
// and the resources are free at the end, also if Close cancels executions.
func TestInstancesWaitForRateLimiter(t *testing.T) {
	r := limits(1, global("R", 1))
	for _, tt := range []struct {
		name    string
		limiter *Limiter
		hurry   bool // close without waiting
		most    int32
	}{
		{"C074 off", nil, false, 4},
		{"C074 execution_count", NewLimiter(nil), false, 1},
		{"closed in a hurry", NewLimiter(nil), true, 1},
		{"C075 two at once where there are two", NewLimiter([]Resource{{"R", 2, GlobalDevice}}), false, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, most atomic.Int32
				a, sa := limitedSet(t, tt.limiter, r, 2, &running, &most)
				b, sb := limitedSet(t, tt.limiter, r, 2, &running, &most)
				var wg sync.WaitGroup
				for i := range 40 {
					o := []Options{a, b}[i%2]
					q := enqueue(t, o, 1+i%8)
					wg.Go(func() {
						resp, err := q.Next(t.Context())
						if err != nil || resp.Err != nil && !tt.hurry {
							t.Errorf("request %d: %+v, %v", i, resp, err)
						}
						q.Release()
					})
				}
				for i, s := range []*Set{sa, sb} {
					[]Options{a, b}[i].Batcher.Close()
					ctx, cancel := context.WithCancel(t.Context())
					if tt.hurry {
						cancel()
					}
					s.Close(ctx)
					cancel()
				}
				wg.Wait()
				if got := most.Load(); got != tt.most && !tt.hurry {
					t.Errorf("%d ran at the same time, want %d", got, tt.most)
				}
				if tt.limiter != nil && len(tt.limiter.Uses()) > 0 {
					t.Errorf("after all is closed there is %v", tt.limiter.Uses())
				}
			})
		})
	}
}

// An instance that needs more resources than there are is not created and holds nothing afterwards.
func TestMissingResourcesFailTheLoad(t *testing.T) {
	o := options(&fake{execute: answer})
	o.Limiter = NewLimiter([]Resource{{"R", 1, EveryDevice}})
	o.Placements = []backend.Placement{{Name: "a", RateLimiter: limits(1, local("R", 1))},
		{Name: "b", RateLimiter: limits(1, local("R", 2))}}
	if _, err := Start(t.Context(), o); err == nil {
		t.Error("Start passes")
	}
	o.Placements = []backend.Placement{{Name: "a", RateLimiter: limits(1, local("R", 1))},
		{Name: "bad", RateLimiter: limits(1, local("R", 1))}}
	if _, err := Start(t.Context(), o); err == nil {
		t.Error("Start passes")
	}
	if uses, open := o.Limiter.Uses(), o.Model.(*fake).names(); len(uses) > 0 || len(open) > 0 {
		t.Errorf("left behind: resources %v, instances %v", uses, open)
	}
}

// Of two models with one instance each, of which one can run at a time, the one with priority 1 gets two turns for each
// of the one with priority 2, while both have requests.
func TestPrioritiesOfTwoModels_C076(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(nil)
		var running, most atomic.Int32
		first, firstSet := limitedSet(t, l, limits(1, global("R", 1)), 1, &running, &most)
		second, secondSet := limitedSet(t, l, limits(2, global("R", 1)), 1, &running, &most)
		var wg sync.WaitGroup
		var answered [2]atomic.Int32
		for range 100 {
			for i, o := range []Options{first, second} {
				q := enqueue(t, o, 8) // fills a batch
				wg.Go(func() {
					defer q.Release()
					late, cancel := context.WithTimeout(t.Context(), 90*time.Millisecond+time.Microsecond)
					defer cancel()
					if _, err := q.Next(late); err == nil {
						answered[i].Add(1)
					}
				})
			}
		}
		wg.Wait()
		if a, b := answered[0].Load(), answered[1].Load(); a < 58 || a > 62 || a+b != 90 {
			t.Errorf("%d and %d answered in the time of 90 executions, want 60 and 30 or so", a, b)
		}
		first.Batcher.Close()
		second.Batcher.Close()
		firstSet.Close(t.Context())
		secondSet.Close(t.Context())
	})
}

// The instances of a model whose backend blocks its device execute one after the other on each GPU, and in parallel
// otherwise. Each execution takes the same time, so as many as can run together do.
func TestInstancesOfABlockedDeviceTakeTurns_C067(t *testing.T) {
	const gpu, cpu = inferencepb.ModelInstanceGroup_KIND_GPU, inferencepb.ModelInstanceGroup_KIND_CPU
	for _, tt := range []struct {
		name   string
		blocks bool
		places []backend.Placement
		r      *inferencepb.ModelRateLimiter
		most   int32
	}{
		{"one GPU", true, []backend.Placement{{Kind: gpu}, {Kind: gpu}, {Kind: gpu}}, nil, 1},
		{"two GPUs", true, []backend.Placement{{Kind: gpu}, {Kind: gpu, Device: 1}, {Kind: gpu, Device: 1}}, nil, 2},
		{"CPU", true, []backend.Placement{{Kind: cpu}, {Kind: cpu}, {Kind: cpu}}, nil, 3},
		{"another policy", false, []backend.Placement{{Kind: gpu}, {Kind: gpu}, {Kind: gpu}}, nil, 3},
		{"with a rate limiter", true, []backend.Placement{{Kind: gpu}, {Kind: gpu}, {Kind: gpu, Device: 1}},
			limits(1, global("R", 1)), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, most atomic.Int32
				l := NewLimiter([]Resource{{"R", 1, GlobalDevice}})
				o, s := startLimited(t, &running, &most, func(o *Options, m *fake) {
					m.traits.DeviceBlocking = tt.blocks
					o.Limiter = l
					for i, p := range tt.places {
						p.Name, p.RateLimiter = fmt.Sprint("m_", i), tt.r
						o.Placements = append(o.Placements, p)
					}
				})
				var wg sync.WaitGroup
				for range 30 {
					q := enqueue(t, o, 8) // fills a batch
					wg.Go(func() {
						defer q.Release()
						if resp, err := q.Next(t.Context()); err != nil || resp.Err != nil {
							t.Errorf("%+v, %v", resp, err)
						}
					})
				}
				wg.Wait()
				o.Batcher.Close()
				s.Close(t.Context())
				if most.Load() != tt.most {
					t.Errorf("%d executed at the same time, want %d", most.Load(), tt.most)
				}
				if uses := append(l.Uses(), s.devices.Uses()...); len(uses) > 0 {
					t.Errorf("after all is closed there is %v", uses)
				}
			})
		})
	}
}

// An instance that is closed executes without waiting for its resources. It returns only what it holds.
func TestAClosedInstanceReturnsNoResourceOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter([]Resource{{"R", 1, GlobalDevice}})
		var holds, closed, waits *Slot
		for _, slot := range []**Slot{&holds, &closed, &waits} {
			var err error
			if *slot, err = l.Join(limits(1, global("R", 1)), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := holds.Acquire(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		var acquired atomic.Bool
		go func() {
			if err := waits.Acquire(t.Context(), nil); err != nil {
				t.Error(err)
			}
			acquired.Store(true)
		}()
		synctest.Wait()
		over := make(chan struct{})
		close(over)
		if err := closed.Acquire(t.Context(), over); err != nil {
			t.Fatal(err)
		}
		closed.Renew()
		synctest.Wait()
		if acquired.Load() {
			t.Error("two hold the only resource")
		}
		holds.Release()
		synctest.Wait()
		if !acquired.Load() {
			t.Error("the instance that waits does not get the resource")
		}
	})
}
