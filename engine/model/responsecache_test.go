package model

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/cache"
	"nereid/engine/infer"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const cachedIdentity = `backend: "identity" max_batch_size: 8 response_cache { enable: true }
input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }`

func cachedModel(t testing.TB, text string, size int64) (*Model, *recorder, *cache.Cache) {
	t.Helper()
	c, err := cache.New(size)
	if err != nil {
		t.Fatal(err)
	}
	rec := record()
	s := spec(config(t, text), t.TempDir(), rec)
	s.Cache = c
	return serve(t, s), rec, c
}

func int32Input(v int32) tensor.Tensor {
	return tensor.Tensor{Name: "INPUT0", DataType: tensor.Int32, Shape: []int64{1, 1},
		Data: binary.LittleEndian.AppendUint32(nil, uint32(v))}
}

func (r *recorder) executed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

func TestResponseCache_C078(t *testing.T) {
	m, rec, _ := cachedModel(t, cachedIdentity, 1<<20)
	for i, tt := range []struct {
		name     string
		change   func(r *infer.Request)
		executed int // inputs that reached an instance until then
	}{
		{"first", func(*infer.Request) {}, 1},
		{"again", func(*infer.Request) {}, 1},
		{"E6 another id", func(r *infer.Request) { r.ID = "x" }, 1},
		{"E6 a parameter", func(r *infer.Request) { r.Parameters = []infer.Parameter{{Name: "p", Bool: true}} }, 2},
		{"E6 the output by name", func(r *infer.Request) { r.Outputs = []infer.RequestedOutput{{Name: "OUTPUT0"}} }, 3},
		{"E6 the output by name again",
			func(r *infer.Request) { r.Outputs = []infer.RequestedOutput{{Name: "OUTPUT0"}} }, 3},
		{"another input", func(r *infer.Request) { r.Inputs[0] = int32Input(8) }, 4},
		{"part of a sequence", func(r *infer.Request) { r.Correlation.Number = 5 }, 5},
	} {
		r := request(int32Input(7))
		tt.change(r)
		want := slices.Clone(r.Inputs[0].Data)
		out, err := ask(t, m, r)
		if err != nil || len(out) != 1 || out[0].Name != "OUTPUT0" || !slices.Equal(out[0].Shape, []int64{1, 1}) ||
			!slices.Equal(out[0].Data, want) {
			t.Fatalf("%d %s: %v, %v", i, tt.name, out, err)
		}
		if n := rec.executed(); n != tt.executed {
			t.Errorf("%s: %d executions, want %d", tt.name, n, tt.executed)
		}
		r.Release()
	}
	var s stats.Snapshot
	m.stats.Snapshot(&s)
	if s.Success.Count != 8 || s.Inferences != 5 || s.Executions != 5 || s.CacheHit.Count != 3 ||
		s.CacheMiss.Count != 4 ||
		s.CacheHit.Ns == 0 || s.CacheMiss.Ns == 0 || s.Queue.Count != 8 || s.Pending != 0 || !s.Cached {
		t.Errorf("statistics %+v", s)
	}
}

// holder is a backend whose executions wait.
type holder struct {
	backend.Backend
	entered, leave chan struct{}
}

func (h *holder) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	m, err := h.Backend.Load(ctx, s)
	return &beforeModel{m, func(*infer.Batch) error {
		h.entered <- struct{}{}
		<-h.leave
		return nil
	}}, err
}

// With preserve_ordering, a cached response waits for those of earlier requests that are executed or queued. A request
// that is cancelled in the queue is answered at once.
func TestCachedResponsesKeepTheOrder_C006(t *testing.T) {
	c, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{builtin.Identity(), make(chan struct{}, 8), make(chan struct{})}
	s := spec(config(t, cachedIdentity+` dynamic_batching { preserve_ordering: true } instance_group { count: 1 }`),
		t.TempDir(), h)
	s.Cache = c
	m := serve(t, s)
	t.Cleanup(func() { close(h.leave) })
	send := func(v int32) *infer.Request {
		r := request(int32Input(v))
		t.Cleanup(r.Release)
		if !m.Acquire() {
			t.Fatal("the model is closing")
		}
		if err := m.Infer(r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	read := func(r *infer.Request) {
		t.Helper()
		resp, err := r.Next(t.Context())
		if err != nil || resp.Err != nil {
			t.Fatalf("%+v, %v", resp, err)
		}
		resp.Release()
	}
	first := send(7)
	<-h.entered
	h.leave <- struct{}{}
	read(first)

	executed := send(1)
	<-h.entered
	queued, cancelled, hit, next := send(2), send(3), send(7), send(7)
	if !hit.Cache.Hit || !next.Cache.Hit {
		t.Fatal("the request is not answered from the cache")
	}
	cancelled.Cancel()
	if resp := cancelled.Poll(); resp == nil || status.CodeOf(resp.Err) != status.Cancelled {
		t.Errorf("a request that is cancelled in the queue has the response %+v", resp)
	}
	if hit.Poll() != nil || next.Poll() != nil {
		t.Fatal("the cached response overtakes that of a request that is executed")
	}
	h.leave <- struct{}{}
	read(executed)
	<-h.entered
	if hit.Poll() != nil || next.Poll() != nil {
		t.Fatal("the cached response overtakes that of a request that was queued")
	}
	h.leave <- struct{}{}
	for _, r := range []*infer.Request{queued, hit, next} {
		read(r)
	}
	if resp := send(7).Poll(); resp == nil {
		t.Error("the cached response waits although there is no earlier request")
	}
	var snapshot stats.Snapshot
	m.stats.Snapshot(&snapshot)
	if snapshot.CacheHit.Count != 3 || snapshot.Success.Count != 6 || snapshot.Pending != 0 {
		t.Errorf("statistics %+v", snapshot)
	}
}

// A reloaded version does not use the cached responses of the previous one: its files may have changed.
func TestReloadDoesNotReuseCachedResponses(t *testing.T) {
	c, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		rec := record()
		s := spec(config(t, cachedIdentity), t.TempDir(), rec)
		s.Cache = c
		m, err := Load(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		r := request(int32Input(7))
		if _, err := ask(t, m, r); err != nil {
			t.Fatal(err)
		}
		r.Release()
		if rec.executed() != 1 {
			t.Errorf("load %d: %d executions, want 1", i, rec.executed())
		}
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := c.Stats().Entries; n != 0 {
			t.Errorf("%d responses are kept after their model is closed", n)
		}
	}
}

func TestErrorResponsesAreNotCached(t *testing.T) {
	m, rec, c := cachedModel(t, cachedIdentity, 1<<20)
	rec.fail = status.New(status.Internal, "no")
	r := request(int32Input(7))
	if _, err := ask(t, m, r); err == nil {
		t.Fatal("the backend's failure passes")
	}
	r.Release()
	if s := c.Stats(); s.Entries != 0 || s.Misses != 1 {
		t.Errorf("cache %+v after a failure", s)
	}
}

// Every request gets the response for its inputs while entries are inserted and dropped.
func TestCacheUnderLoad_E6(t *testing.T) {
	m, _, c := cachedModel(t, cachedIdentity, 8<<10)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(2, uint64(g)))
			for range 500 {
				v := rnd.Int32N(60)
				r := request(int32Input(v))
				out, err := ask(t, m, r)
				if err != nil || int32(binary.LittleEndian.Uint32(out[0].Data)) != v {
					t.Errorf("%d answers %v, %v", v, out, err)
				}
				r.Release()
			}
		})
	}
	wg.Wait()
	if s := c.Stats(); s.Hits == 0 || s.Evictions == 0 || s.Used > s.Size {
		t.Errorf("cache %+v", s)
	}
}

func BenchmarkIdentity(b *testing.B) {
	for _, bb := range []struct {
		name   string
		cached bool
	}{{"plain", false}, {"cache hit", true}} {
		b.Run(bb.name, func(b *testing.B) {
			c, err := cache.New(1 << 20)
			if err != nil {
				b.Fatal(err)
			}
			s := spec(config(b, cachedIdentity), b.TempDir(), builtin.Identity())
			if bb.cached {
				s.Cache = c
			}
			m := serve(b, s)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				r := infer.New()
				r.ModelName = "m"
				r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT0", DataType: tensor.Int32, Shape: []int64{1, 16},
					Data: zeros[:]})
				if !m.Acquire() {
					b.Fatal("closing")
				}
				if err := m.Infer(r); err != nil {
					b.Fatal(err)
				}
				resp, err := r.Next(ctx)
				if err != nil {
					b.Fatal(err)
				}
				resp.Release()
				r.Release()
			}
		})
	}
}

var zeros [64]byte
