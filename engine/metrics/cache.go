package metrics

import (
	"time"

	"nereid/engine/stats"
)

// cache writes the response cache's families, with Triton's names: first those per model, for models that use it.
func (e *Exporter) cache(w *writer) {
	for _, f := range []struct {
		name, help string
		value      func(s *stats.Snapshot) uint64
	}{
		{"nv_cache_num_hits_per_model", "Number of cache hits per model",
			func(s *stats.Snapshot) uint64 { return s.CacheHit.Count }},
		{"nv_cache_hit_duration_per_model", "Total cache hit duration per model, in microseconds",
			func(s *stats.Snapshot) uint64 { return micros(s.CacheHit) }},
		{"nv_cache_num_misses_per_model", "Number of cache misses per model",
			func(s *stats.Snapshot) uint64 { return s.CacheMiss.Count }},
		{"nv_cache_miss_duration_per_model", "Total cache miss (insert+lookup) duration per model, in microseconds",
			func(s *stats.Snapshot) uint64 { return micros(s.CacheMiss) }},
	} {
		if e.o.OmitCounterLatencies {
			break // as in Triton, for the counts too
		}
		w.family(f.name, f.help, "counter")
		for i := range e.snapshots {
			if s := &e.snapshots[i]; s.Cached {
				w.sample(f.name, s, whole(f.value(s)))
			}
		}
	}
	s := e.o.Cache()
	us := func(d time.Duration) string { return whole(d.Microseconds()) }
	used := float(float64(s.Used) / float64(max(s.Size, 1)))
	for _, f := range []struct {
		name, help, value string
		local             bool // absent if the store is outside of this process
	}{
		{"nv_cache_util", "Cache utilization [0.0 - 1.0]", used, true},
		{"nv_cache_num_entries", "Number of responses stored in response cache", whole(s.Entries), true},
		{"nv_cache_num_hits", "Number of cache hits in response cache", whole(s.Hits), false},
		{"nv_cache_num_misses", "Number of cache misses in response cache", whole(s.Misses), false},
		{"nv_cache_num_lookups", "Number of cache lookups in response cache", whole(s.Lookups), false},
		{"nv_cache_num_evictions", "Number of cache evictions in response cache", whole(s.Evictions), true},
		{"nv_cache_lookup_duration", "Total cache lookup duration (hit and miss), in microseconds", us(s.Lookup),
			false},
		{"nv_cache_insertion_duration", "Total cache insertion duration, in microseconds", us(s.Insertion), false},
	} {
		if !f.local || s.Size > 0 {
			w.single(f.name, f.help, "gauge", f.value, nil)
		}
	}
}
