package metrics

import (
	"slices"
	"strconv"
	"time"

	"nereid/engine/stats"
)

// cache writes the response cache's families, with Triton's names: per model for those that use it, then of the whole.
func (e *Exporter) cache(w *writer) {
	for _, f := range []struct {
		name, help string
		value      func(s *stats.Snapshot) uint64
	}{
		{"nv_cache_num_hits_per_model", "Number of cache hits per model", func(s *stats.Snapshot) uint64 { return s.CacheHit.Count }},
		{"nv_cache_hit_duration_per_model", "Total cache hit duration per model, in microseconds", func(s *stats.Snapshot) uint64 { return micros(s.CacheHit) }},
		{"nv_cache_num_misses_per_model", "Number of cache misses per model", func(s *stats.Snapshot) uint64 { return s.CacheMiss.Count }},
		{"nv_cache_miss_duration_per_model", "Total cache miss (insert+lookup) duration per model, in microseconds", func(s *stats.Snapshot) uint64 { return micros(s.CacheMiss) }},
	} {
		if e.o.OmitCounterLatencies {
			break // Triton's go with it, counts and durations alike
		}
		w.family(f.name, f.help, "counter")
		for i := range e.snapshots {
			if s := &e.snapshots[i]; s.Cached {
				w.sample(f.name, s, strconv.FormatUint(f.value(s), 10))
			}
		}
	}
	s := e.o.Cache()
	us := func(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, f := range []struct{ name, help, value string }{
		{"nv_cache_util", "Cache utilization [0.0 - 1.0]", float(float64(s.Used) / float64(max(s.Size, 1)))},
		{"nv_cache_num_entries", "Number of responses stored in response cache", strconv.FormatInt(s.Entries, 10)},
		{"nv_cache_num_hits", "Number of cache hits in response cache", count(s.Hits)},
		{"nv_cache_num_misses", "Number of cache misses in response cache", count(s.Misses)},
		{"nv_cache_num_lookups", "Number of cache lookups in response cache", count(s.Lookups)},
		{"nv_cache_num_evictions", "Number of cache evictions in response cache", count(s.Evictions)},
		{"nv_cache_lookup_duration", "Total cache lookup duration (hit and miss), in microseconds", us(s.Lookup)},
		{"nv_cache_insertion_duration", "Total cache insertion duration, in microseconds", us(s.Insertion)},
	} {
		if s.Size == 0 && slices.Contains([]string{"nv_cache_util", "nv_cache_num_entries", "nv_cache_num_evictions"}, f.name) {
			continue // of a store that is not ours
		}
		w.family(f.name, f.help, "gauge")
		w.plain(f.name, f.value)
	}
}
