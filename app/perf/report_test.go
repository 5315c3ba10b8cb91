package perf

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// The parts of the latency add up to it, also if most answers come from the cache.
func TestReportOfACachedModel_F016(t *testing.T) {
	of := func(n uint64, each time.Duration) Duration { return Duration{Count: n, Sum: time.Duration(n) * each} }
	p := &Point{Server: &ServerStats{Success: of(100, 12*time.Microsecond), Queue: of(100, time.Microsecond),
		CacheHit: of(90, 2*time.Microsecond), CacheMiss: of(10, 12*time.Microsecond),
		Input: of(10, 10*time.Microsecond), Infer: of(10, 40*time.Microsecond), Output: of(10, 20*time.Microsecond)}}
	for cached, want := range map[bool]string{
		true: `latency: 12 usec (overhead 1 usec + queue 1 usec + cache hit/miss 10 usec)
      Average Cache Hit Latency: 2 usec
      Average Cache Miss Latency: 82 usec (cache lookup/insertion 12 usec + compute input 10 usec + ` +
			`compute infer 40 usec + compute output 20 usec)
`,
		false: "latency: 12 usec (overhead 0 usec + queue 1 usec + compute input 10 usec + compute infer 40 usec + " +
			"compute output 20 usec)\n",
	} {
		var b bytes.Buffer
		if err := WriteReport(&b, p, ReportOptions{Model: &Model{Cached: cached}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("report\n%s\nwant\n%s", b.String(), want)
		}
	}
}
