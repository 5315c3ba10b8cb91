package lifecycle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/model"
	"nereid/engine/residency"
	"nereid/engine/status"
)

// zipf returns n picks of 12 models, a few of them often and most rarely.
func zipf(seed uint64, n int) []string {
	z := rand.NewZipf(rand.New(rand.NewPCG(seed, 3)), 1.2, 1, 11)
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("m%d", z.Uint64())
	}
	return all
}

// twelve is a rig with twelve models of 100 bytes each, and room for five.
func twelve(t *testing.T, edit func(*Options)) *rig {
	r := newRig(t, func(o *Options) {
		o.Residency = residency.Budget{Host: 550}
		if edit != nil {
			edit(o)
		}
	})
	r.b.size = 100
	for i := range 12 {
		r.write(fmt.Sprintf("m%d/config.pbtxt", i), policy("all {}"))
		r.write(fmt.Sprintf("m%d/1/file", i), strings.Repeat("x", 100))
	}
	return r
}

func (r *rig) resident() (all []string) {
	for _, s := range r.Models() {
		for _, v := range s.Versions {
			if v.Model != nil {
				all = append(all, s.Name)
			}
		}
	}
	return all
}

// Twelve models over a budget for five: the hit rate is that of an ideal LRU, and no request fails.
func TestResidencyHitRate(t *testing.T) {
	r := twelve(t, nil)
	if failed, err := r.LoadAll(t.Context()); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	if got := len(r.resident()); got != 5 {
		t.Errorf("%d models are in memory after the start, want 5", got)
	}
	if !r.AllReady() {
		t.Error("models that are not in memory make the server unready")
	}
	const requests = 3000
	sequence := zipf(1, requests)
	_, before, _ := r.b.count()
	lru := r.resident() // the last is the one used last
	misses := 0
	for _, name := range sequence {
		if i := slices.Index(lru, name); i >= 0 {
			lru = slices.Delete(lru, i, i+1)
		} else {
			misses++
			lru = lru[1:]
		}
		lru = append(lru, name)
		if err := r.ask(name); err != nil {
			t.Fatal(err)
		}
		if open, _, _ := r.b.count(); open > 5 {
			t.Fatalf("%d models are open, the budget is for 5", open)
		}
	}
	_, after, _ := r.b.count()
	ideal, got := 1-float64(misses)/requests, 1-float64(after-before)/requests
	t.Logf("hit rate %.3f, ideal LRU %.3f", got, ideal)
	if got < ideal*0.95 {
		t.Errorf("hit rate %.3f, of an ideal LRU %.3f", got, ideal)
	}
}

// The budget of a GPU limits the measured memory, not the size of the files.
func TestResidencyOfGPUMemory(t *testing.T) {
	r := twelve(t, func(o *Options) { o.Residency = residency.Budget{GPU: map[int]int64{1: 550}} })
	r.b.onGPU = 100
	for i := range 12 {
		r.write(fmt.Sprintf("m%d/1/file", i), strings.Repeat("x", 10000))
	}
	if failed, err := r.LoadAll(t.Context()); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	for i := range 12 {
		if err := r.ask(fmt.Sprintf("m%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if used := r.ResidencyStatus().Used; len(r.resident()) != 5 || used.GPU[1] != 500 {
		t.Errorf("%d models are in memory and take %v of the GPU, want 5 and 500", len(r.resident()), used.GPU)
	}
	for _, s := range r.Models() {
		if in := slices.Contains(r.resident(), s.Name); in &&
			(s.Memory.GPU[1] != 100 || s.Memory.GPUSource != model.FromAllocator ||
				s.Memory.Source != model.FromAllocator) {
			t.Errorf("%s: %+v, want 100 bytes of GPU 1 from the allocator", s.Name, s.Memory)
		}
	}
}

// With many concurrent clients no request fails, and the memory stays within the budget.
func TestResidencyUnderLoad(t *testing.T) {
	r := twelve(t, func(o *Options) { o.Residency.Patience = 20 * time.Millisecond })
	if failed, err := r.LoadAll(t.Context()); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i, name := range zipf(uint64(c), 200) {
				if err := r.ask(name); err != nil {
					t.Errorf("client %d, request %d: %v", c, i, err)
					return
				}
				if open, _, _ := r.b.count(); open > 5 {
					t.Errorf("%d models are open, the budget is for 5", open)
				}
			}
		})
	}
	wg.Wait()
	if used := r.ResidencyStatus().Used.Host; used > 550 {
		t.Errorf("%d bytes are in use, the budget is 550", used)
	}
}

// A loaded model counts at every moment: otherwise another load would find room that does not exist.
func TestLoadedMemoryCountsImmediately(t *testing.T) {
	r := twelve(t, nil)
	looked := 0
	r.b.sizeNow = func() int64 {
		if !r.Manager.mu.TryLock() { // the caller holds it
			return 100
		}
		defer r.Manager.mu.Unlock()
		loaded := int64(0)
		for _, e := range r.entries {
			for _, v := range e.versions {
				if v.model != nil {
					loaded++
				}
			}
		}
		looked++
		if used := r.memory.Used()[residency.Host]; used < 100*loaded {
			t.Errorf("%d bytes count, with %d models of 100 in memory", used, loaded)
		}
		return 100
	}
	for i := range 7 {
		r.load(fmt.Sprintf("m%d", i))
	}
	if looked == 0 {
		t.Error("nothing was measured")
	}
}

// A model that turns out larger than its files waits for room, and its memory counts meanwhile: a third load has to
// wait.
func TestOversizeReservationsCount(t *testing.T) {
	r := twelve(t, nil)
	r.load("m0")
	r.load("m1")
	busy := make(chan struct{})
	began := make(chan struct{}, 2)
	r.b.execute = func(context.Context) {
		began <- struct{}{}
		<-busy
	}
	var wg sync.WaitGroup
	for _, name := range []string{"m0", "m1"} { // they execute requests, so they are not evicted
		wg.Go(func() {
			if err := r.ask(name); err != nil {
				t.Error(err)
			}
		})
		<-began
	}
	r.b.size = 400 // 200 are in use
	fitting := make(chan error, 1)
	go func() { fitting <- r.Load(t.Context(), "m2", nil) }()
	var used int64
	for end := time.Now().Add(time.Minute); used < 600 && time.Now().Before(end); runtime.Gosched() {
		used = r.memory.Used()[residency.Host]
	}
	if used < 600 {
		t.Errorf("%d bytes count, want 600: 200 in service and 400 of the one that does not fit yet", used)
	}
	close(busy)
	wg.Wait()
	if err := <-fitting; err != nil {
		t.Error(err)
	}
}

func TestResidencyRules(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, r *rig)
	}{
		{"a pinned model stays, by hand and by its configuration", func(t *testing.T, r *rig) {
			r.write("m1/config.pbtxt", policy("all {}")+
				` parameters { key: "residency" value { string_value: "pinned" } }`)
			r.Pin("m0", &yes)
			r.load("m0")
			r.load("m1")
			for i := range 10 {
				if err := r.ask(fmt.Sprintf("m%d", 2+i)); status.CodeOf(err) != status.NotFound {
					t.Fatal(err)
				}
				r.load(fmt.Sprintf("m%d", 2+i))
			}
			if got := r.resident(); !slices.Contains(got, "m0") || !slices.Contains(got, "m1") || len(got) != 5 {
				t.Errorf("in memory: %v, want five with m0 and m1", got)
			}
		}},
		{"a model that is larger than the budget says how many bytes are short", func(t *testing.T, r *rig) {
			r.b.size = 600
			err := r.Load(t.Context(), "m0", nil)
			if err == nil || !strings.Contains(err.Error(),
				"it needs 600 bytes of memory and is 50 bytes short of fitting into the budget of 550 bytes "+
					"(--model-memory-budget)") {
				t.Errorf("load = %v", err)
			}
			if open, _, _ := r.b.count(); open != 0 {
				t.Errorf("%d models are open", open)
			}
		}},
		{"a model that takes less than its files is not refused for these", func(t *testing.T, r *rig) {
			r.write("m0/1/file", strings.Repeat("x", 1000))
			r.load("m0")
			r.check("loaded", "m0", 1)
			if s, _ := r.Model("m0"); s.Memory.Host != 100 || s.Memory.Source != "allocator" {
				t.Errorf("memory %+v, want 100 of the allocator", s.Memory)
			}
		}},
		{"all others are pinned", func(t *testing.T, r *rig) {
			for i := range 5 {
				r.Pin(fmt.Sprintf("m%d", i), &yes)
				r.load(fmt.Sprintf("m%d", i))
			}
			err := r.Load(t.Context(), "m5", nil)
			if err == nil || !strings.Contains(err.Error(), "50 bytes short") {
				t.Errorf("load = %v", err)
			}
			r.Pin("m3", nil)
			r.load("m5")
			if slices.Contains(r.resident(), "m3") {
				t.Error("the model that is pinned no longer stays")
			}
		}},
		{"a version that takes the place of an evicted one is not loading while there is no room", func(t *testing.T,
			r *rig) {
			for i := range 5 {
				r.Pin(fmt.Sprintf("m%d", i), &yes)
			}
			if failed, err := r.LoadAll(t.Context()); err != nil || len(failed) > 0 {
				t.Fatal(failed, err)
			}
			for i := range 5 {
				r.load(fmt.Sprintf("m%d", i))
			}
			r.rename("m5/1", "m5/2")
			if err := r.ask("m5"); err == nil {
				t.Error("a request for a model without room is answered")
			}
			s, _ := r.Model("m5")
			for _, v := range s.Versions {
				if v.State == Loading || v.Version == 2 && !strings.Contains(v.Reason, "50 bytes short") {
					t.Errorf("version %d is %s, %q", v.Version, v.State, v.Reason)
				}
			}
		}},
		{"a model at work does not leave", func(t *testing.T, r *rig) {
			working, finish := make(chan struct{}), make(chan struct{})
			r.load("m0")
			r.b.execute = func(context.Context) { close(working); <-finish }
			done := make(chan error)
			go func() { done <- r.ask("m0") }()
			<-working
			r.b.execute = nil
			for i := range 5 {
				r.load(fmt.Sprintf("m%d", 1+i)) // the last one needs room, and m0 was used longest ago
			}
			if !slices.Contains(r.resident(), "m0") {
				t.Error("it left")
			}
			if err := r.Evict("m0"); status.CodeOf(err) != status.Unavailable {
				t.Errorf("Evict of a model at work = %v", err)
			}
			close(finish)
			if err := <-done; err != nil {
				t.Error(err)
			}
		}},
		{"a request to a model that was evicted brings it back, as do those beside it", func(t *testing.T, r *rig) {
			r.load("m0")
			if err := r.Evict("m0"); err != nil {
				t.Fatal(err)
			}
			if s, _ := r.Model("m0"); !s.Versions[0].Evicted || s.Versions[0].State != Ready {
				t.Errorf("after Evict: %+v", s.Versions[0])
			}
			if cfg, err := r.Config("m0", -1); err != nil || cfg.GetMaxBatchSize() != 4 {
				t.Errorf("the configuration of an evicted model = %v, %v", cfg, err)
			}
			_, before, _ := r.b.count()
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if err := r.ask("m0"); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if _, after, _ := r.b.count(); after != before+1 {
				t.Errorf("20 requests loaded it %d times", after-before)
			}
		}},
		{"a failed load answers the requests that wait, and the next change repairs it", func(t *testing.T, r *rig) {
			r.load("m0")
			if err := r.Evict("m0"); err != nil {
				t.Fatal(err)
			}
			r.b.load = func(context.Context, backend.Spec) error { return status.New(status.Internal, "not this time") }
			if err := r.ask("m0"); err == nil || !strings.Contains(err.Error(), "not this time") {
				t.Errorf("a request = %v", err)
			}
			r.b.load = nil
			r.load("m0")
			if err := r.ask("m0"); err != nil {
				t.Error(err)
			}
		}},
		{"unload of an evicted model", func(t *testing.T, r *rig) {
			r.load("m0")
			if err := r.Evict("m0"); err != nil {
				t.Fatal(err)
			}
			r.Unload("m0")
			if err := r.ask("m0"); status.CodeOf(err) != status.NotFound {
				t.Errorf("a request = %v", err)
			}
			r.until("it is unloaded", func() bool { return r.reason("m0", 1) == "unloaded" })
		}},
		{"what overrides the files survives", func(t *testing.T, r *rig) {
			if err := r.Load(t.Context(), "new", overriding("7/file")); err != nil {
				t.Fatal(err)
			}
			if err := r.Evict("new"); err != nil {
				t.Fatal(err)
			}
			if err := r.ask("new"); err != nil {
				t.Error(err)
			}
			r.check("back", "new", 7)
		}},
		{"files that fail leave an evicted model as it was", func(t *testing.T, r *rig) {
			r.load("m0")
			if err := r.Load(t.Context(), "new", overriding("1/file")); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"m0", "new"} {
				if err := r.Evict(name); err != nil {
					t.Fatal(err)
				}
				if err := r.Load(t.Context(), name, overriding("1/broken")); err == nil {
					t.Errorf("%s: the load does not fail", name)
				}
				if s, _ := r.Model(name); !s.Versions[0].Evicted || s.Versions[0].State != Ready {
					t.Errorf("%s: after the load: %+v", name, s.Versions[0])
				}
				if err := r.ask(name); err != nil {
					t.Errorf("%s: a request = %v", name, err)
				}
				if why := r.reason(name, 1); why != "" {
					t.Errorf("%s: back with the reason %q", name, why)
				}
			}
		}},
		{"a model that writes into its folder keeps its override", func(t *testing.T, r *rig) {
			if err := r.Load(t.Context(), "new", overriding("1/file")); err != nil {
				t.Fatal(err)
			}
			s, _ := r.Model("new")
			if err := os.WriteFile(filepath.Join(s.Folder, "1/notes"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := r.Evict("new"); err != nil {
				t.Fatal(err)
			}
			if err := r.ask("new"); err != nil {
				t.Error(err)
			}
			if s, _ := r.Model("new"); s.Config.GetMaxBatchSize() != 3 {
				t.Errorf("max_batch_size %d, want that of the override, 3", s.Config.GetMaxBatchSize())
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := twelve(t, nil)
			r.t = t
			tt.do(t, r)
		})
	}
}

// Models without requests are evicted after a time, except pinned ones.
func TestIdleModelsAreEvicted(t *testing.T) {
	yes := true
	r := newRig(t, func(o *Options) { o.Residency.Idle = time.Millisecond })
	for _, name := range []string{"a", "b"} {
		r.write(name+"/config.pbtxt", policy("all {}"))
		r.write(name+"/1/file", "")
	}
	r.Pin("b", &yes)
	r.load("a")
	r.load("b")
	r.until("a leaves", func() bool { return slices.Equal(r.resident(), []string{"b"}) })
	if err := r.ask("a"); err != nil {
		t.Error(err)
	}
}

// If models grow as they execute, models are evicted until the rest fit.
func TestGrowingModelsCauseEviction(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Residency.Host, o.Residency.Idle = 550, time.Hour })
	var size atomic.Int64
	size.Store(50)
	r.b.sizeNow = size.Load
	for i := range 10 {
		r.write(fmt.Sprintf("m%d/config.pbtxt", i), policy("all {}"))
		r.write(fmt.Sprintf("m%d/1/file", i), "")
		r.load(fmt.Sprintf("m%d", i))
	}
	if got := len(r.resident()); got != 10 {
		t.Fatalf("%d models are in memory, want 10", got)
	}
	size.Store(100)
	r.until("five have left", func() bool { return len(r.resident()) == 5 })
	if got := r.resident(); !slices.Contains(got, "m9") || slices.Contains(got, "m0") {
		t.Errorf("in memory: %v, want those used last", got)
	}
}

// With the policy resources_first a reload closes the old model before it loads the new one, and no request is lost.
func TestReloadPolicies(t *testing.T) {
	for _, policyName := range []string{ReloadAvailability, ReloadResources} {
		t.Run(policyName, func(t *testing.T) {
			r := newRig(t, nil)
			most := 0
			r.b.load = func(context.Context, backend.Spec) error {
				open, _, _ := r.b.count()
				most = max(most, open)
				return nil
			}
			text := policy("latest { num_versions: 1 }") +
				fmt.Sprintf(` parameters { key: "reload_policy" value { string_value: "%s" } }`, policyName)
			r.write("m/config.pbtxt", text)
			r.write("m/1/file", "")
			r.load("m")
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := r.ask("m"); err != nil {
							t.Errorf("a request: %v", err)
							return
						}
					}
				})
			}
			for i := range 10 {
				r.write("m/1/file", fmt.Sprint(i))
				r.load("m")
			}
			r.write("m/2/file", "")
			r.load("m")
			close(stop)
			wg.Wait()
			r.check("in the end", "m", 2)
			if want := map[string]int{ReloadAvailability: 1, ReloadResources: 0}[policyName]; most != want &&
				(policyName == ReloadResources || most < want) {
				t.Errorf("up to %d models were open when another was loaded, want %d", most, want)
			}
		})
	}
}
