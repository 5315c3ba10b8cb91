package history

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/stats"
	"nereid/store"
)

// fakeSource answers what the test put into it.
type fakeSource struct {
	mu    sync.Mutex
	snaps []stats.Snapshot
	gone  []stats.Snapshot // of Removed
	asked bool             // there was a call of Removed
	next  chan struct{}    // of Activity
}

func (f *fakeSource) Removed() []stats.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := f.gone
	f.gone, f.asked = nil, true
	return gone
}

func (f *fakeSource) set(snaps ...stats.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.snaps = snaps
	if f.next != nil {
		close(f.next)
		f.next = nil
	}
}

func (f *fakeSource) Activity() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = make(chan struct{})
	}
	return f.next
}

func (f *fakeSource) Snapshots(dst []stats.Snapshot) []stats.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(dst[:0], f.snaps...)
}

// fakeSink keeps what it is given.
type fakeSink struct {
	mu      sync.Mutex
	samples []store.Sample
	spans   []store.Span
	events  []store.Event
}

func (f *fakeSink) RecordSamples(p []store.Sample) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.samples = append(f.samples, p...)
	return true
}

func (f *fakeSink) RecordSpans(p []store.Span) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spans = append(f.spans, p...)
	return true
}

func (f *fakeSink) RecordEvent(e store.Event) (store.Event, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.ID = int64(len(f.events) + 1)
	f.events = append(f.events, e)
	return e, true
}

func (f *fakeSink) lastSample() store.Sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.samples[len(f.samples)-1]
}

func (f *fakeSink) lastSpan() store.Span {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spans[len(f.spans)-1]
}

// snapshot has n successes of 1 ms each in batches of 4, one failure of each reason when n > 0.
func snapshot(model string, version int64, epoch, n uint64) stats.Snapshot {
	s := stats.Snapshot{Model: model, Version: version, Epoch: epoch}
	s.Success = stats.Total{Count: n, Ns: n * 1e6}
	s.Queue.Ns, s.Input.Ns, s.Infer.Ns, s.Output.Ns = n*1, n*2, n*3, n*4
	s.Inferences, s.Executions = n, n/4
	s.Batches = []stats.Batch{{Size: 4, Infer: stats.Total{Count: n / 4}}}
	s.Latency[stats.Bucket(time.Millisecond)] = n
	if n > 0 {
		s.Failures = [stats.NumReasons]uint64{1, 1, 1, 1}
	}
	return s
}

func TestRecorderStoresBusySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, sink := &fakeSource{}, &fakeSink{}
		r := New(nil, sink)
		var live []Second
		defer r.Listen(Listener{Second: func(s Second) { live = append(live, s) }})()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(2500 * time.Millisecond) // of fake time: no source yet, nothing happens
		r.SetSource(src)
		start := time.Now().Truncate(time.Second)
		src.set(snapshot("a", 1, 1, 8), snapshot("b", 1, 2, 0))
		time.Sleep(time.Second)
		time.Sleep(time.Second) // an idle second
		src.set(snapshot("a", 1, 1, 20), snapshot("b", 1, 2, 0))
		time.Sleep(time.Second)
		src.set(snapshot("a", 1, 3, 4)) // a was unloaded and loaded again, b is gone
		time.Sleep(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var requests, times []int64
		for _, p := range sink.samples {
			requests = append(requests, p.Requests)
			times = append(times, p.StartUS-start.UnixMicro())
		}
		if want := []int64{12, 12, 8}; !reflect.DeepEqual(requests, want) {
			t.Errorf("requests stored = %v, want %v", requests, want)
		}
		if want := []int64{0, 2e6, 3e6}; !reflect.DeepEqual(times, want) {
			t.Errorf("stored for the times %v, want %v", times, want)
		}
		second := sink.samples[1]
		if second.Failures != (store.Failures{}) || second.Successes != 12 || second.BatchRows != 12 ||
			second.Executions != 3 ||
			second.ComputeInferNS != 36 || second.Histogram().Count() != 12 || second.RequestNS != 12e6 {
			t.Errorf("the second busy sample is %+v", second)
		}
		if len(live) != 5 || len(live[1].Samples) != 2 || live[1].Samples[0].Requests != 0 ||
			len(live[3].Samples) != 1 {
			t.Errorf("live seconds: %+v; want five, idle versions included", live)
		}
		spans := map[store.Span]bool{}
		for _, p := range sink.spans {
			p.FromUS -= start.UnixMicro()
			p.ToUS -= start.UnixMicro()
			spans[p] = true
		}
		want := map[store.Span]bool{
			{Model: "a", Version: 1, FromUS: 0, ToUS: 3e6}:   true,
			{Model: "b", Version: 1, FromUS: 0, ToUS: 3e6}:   true,
			{Model: "a", Version: 1, FromUS: 3e6, ToUS: 5e6}: true,
		}
		if !reflect.DeepEqual(spans, want) {
			t.Errorf("spans %v, want %v", spans, want)
		}
	})
}

func TestRecentForgetsAfterAMinute(t *testing.T) {
	src := &fakeSource{}
	r := New(src, &fakeSink{})
	base := time.Unix(1_700_000_000, 0)
	for i := range uint64(90) {
		src.set(snapshot("a", 1, 1, 4*(i+1)))
		r.tick(base.Add(time.Duration(i) * time.Second))
	}
	got, end := r.Recent("a", 1)
	if len(got) != 60 || end != base.Add(90*time.Second).UnixMicro() ||
		got[0].StartUS != base.Add(30*time.Second).UnixMicro() {
		t.Errorf("Recent = %d seconds up to %d; want the last 60", len(got), end)
	}
	if got, end := r.Recent("a", 2); got != nil || end != 0 {
		t.Errorf("Recent of a version that is not loaded = %v, %d", got, end)
	}
}

func TestEventsReachStoreAndListeners(t *testing.T) {
	sink := &fakeSink{}
	r := New(nil, sink)
	var heard []store.Event
	remove := r.Listen(Listener{Event: func(e store.Event) { heard = append(heard, e) }})
	r.Event(Event{Kind: LoadFailed, Model: "m", Version: 2, Text: "no such file",
		Detail: Took(1500 * time.Microsecond)})
	remove()
	r.Event(Event{Kind: ServerStop})
	if len(sink.events) != 2 || len(heard) != 1 || heard[0].ID != 1 || !reflect.DeepEqual(heard[0], sink.events[0]) {
		t.Fatalf("stored %+v, heard %+v; want both stored and the first heard, with its ID", sink.events, heard)
	}
	if d := DetailOf(heard[0]); d.DurationMs != 1.5 || heard[0].Reason != "no such file" {
		t.Errorf("heard %+v with detail %+v", heard[0], d)
	}
	if d := DetailOf(sink.events[1]); d != (Detail{}) || sink.events[1].Detail != nil {
		t.Errorf("an event without detail has %+v", d)
	}
}

// sickSink drops.
type sickSink struct {
	fakeSink
	health store.Health
}

func (s *sickSink) Health() store.Health { return s.health }

func TestDroppedHistoryIsReported(t *testing.T) {
	sink := &sickSink{}
	r := New(nil, sink)
	r.reportDropped()
	sink.health = store.Health{DroppedSamples: 7, LastError: "disk full"}
	r.reportDropped()
	r.reportDropped()
	if len(sink.events) != 1 || sink.events[0].Kind != HistoryDropped ||
		!strings.Contains(sink.events[0].Reason, "7 samples") ||
		!strings.Contains(sink.events[0].Reason, "disk full") {
		t.Errorf("events = %+v, want one with the number 7 and the reason", sink.events)
	}
}

func TestBucketLayoutsAreTheSame(t *testing.T) {
	for i := range stats.Buckets {
		low, _ := store.BucketBounds(i)
		if got := stats.LowerBound(i); uint64(got) != low {
			t.Errorf("bucket %d begins at %d in stats, at %d in store", i, got, low)
		}
	}
}

func TestSpansOfIdleVersionsAreSeldomStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, sink := &fakeSource{}, &fakeSink{}
		src.set(snapshot("a", 1, 1, 0))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- New(src, sink).Run(ctx) }()
		spans := func() []store.Span {
			sink.mu.Lock()
			defer sink.mu.Unlock()
			return slices.Clone(sink.spans)
		}
		pass := func(d time.Duration) (stored int, last int64) {
			before := len(spans())
			time.Sleep(d)
			synctest.Wait()
			after := spans()
			return len(after) - before, after[len(after)-1].ToUS
		}
		if n, _ := pass(spanEvery + 2*time.Second); n != 1 {
			t.Errorf("after a load, spans are stored %d times in %v, want once", n, spanEvery)
		}
		if n, _ := pass(idleSpanEvery + 2*restEvery); n != 1 {
			t.Errorf("without requests, spans are stored %d times in %v, want once", n, idleSpanEvery)
		}
		src.set(snapshot("a", 1, 1, 8))
		n, last := pass(spanEvery + 2*time.Second)
		if now := time.Now().UnixMicro(); n != 1 || last < now-(spanEvery+2*time.Second).Microseconds() {
			t.Errorf("after a request, spans are stored %d times and end %d us ago; want once in %v", n, now-last,
				spanEvery)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnIdleServerIsSeldomLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, sink := &fakeSource{}, &fakeSink{}
		src.set(snapshot("a", 1, 1, 8))
		r := New(src, sink)
		var looks atomic.Int32
		defer r.Listen(Listener{Second: func(Second) { looks.Add(1) }})()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(2 * time.Minute)
		if n := looks.Swap(0); n < 60 || n > 75 {
			t.Errorf("%d seconds are recorded in the first two minutes, want each of the first one", n)
		}
		time.Sleep(time.Hour + 2500*time.Millisecond)
		if n := looks.Load(); n > 361 {
			t.Errorf("%d seconds of an idle hour are looked at, want one of ten", n)
		}
		now := time.Now().Truncate(time.Second).UnixMicro()
		if _, end := r.Recent("a", 1); end != now {
			t.Errorf("the last minute of an idle version ended %d us ago", now-end)
		}

		src.set(snapshot("a", 1, 1, 20)) // in the middle of a second, in a rest
		time.Sleep(time.Second)
		synctest.Wait()
		if p := sink.lastSample(); p.Requests != 12 || p.StartUS != now {
			t.Errorf("a request after a rest is recorded as %d requests, %d us late", p.Requests, p.StartUS-now)
		}
		time.Sleep(2 * time.Minute) // it rests again
		src.set()
		unloaded := time.Now().Truncate(time.Second).UnixMicro()
		time.Sleep(time.Second)
		synctest.Wait()
		if p := sink.lastSpan(); p.ToUS != unloaded {
			t.Errorf("a version unloaded after a rest was loaded until %d us before", unloaded-p.ToUS)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheClockMayBeSetBack(t *testing.T) {
	src := &fakeSource{}
	r := New(src, &fakeSink{})
	wrong := time.Unix(2_000_000_000, 0)
	for i := range uint64(30) {
		src.set(snapshot("a", 1, 1, 4*(i+1)))
		r.tick(wrong.Add(time.Duration(i) * time.Second))
	}
	base := time.Unix(1_700_000_000, 0)
	var gone []store.Span
	for i := range uint64(90) {
		src.set(snapshot("a", 1, 1, 200+4*i))
		gone = append(gone, r.tick(base.Add(time.Duration(i)*time.Second))...)
	}
	if got, end := r.Recent("a", 1); len(got) != 60 || end != base.Add(90*time.Second).UnixMicro() {
		t.Errorf("Recent = %d seconds up to %d; want the last 60 by the new clock", len(got), end)
	}
	before := store.Span{Model: "a", Version: 1, FromUS: wrong.UnixMicro(),
		ToUS: wrong.Add(30 * time.Second).UnixMicro()}
	now := store.Span{Model: "a", Version: 1, FromUS: base.UnixMicro(), ToUS: base.Add(90 * time.Second).UnixMicro()}
	if len(gone) != 1 || gone[0] != before || r.Loaded()[0] != now {
		t.Errorf("spans %v and %v, want one by each clock", gone, r.Loaded())
	}
}

// What a version counted in the second in which it is unloaded is stored too.
func TestRequestsBeforeAnUnloadAreStored_E050(t *testing.T) {
	base := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		name string
		look func(*fakeSource) // what the source has in the second look
	}{
		{"it was unloaded before the look", func(f *fakeSource) { f.set() }},
		{"it was unloaded during the look", func(f *fakeSource) { f.set(snapshot("a", 1, 1, 12)) }},
		{"it was loaded again", func(f *fakeSource) { f.set(snapshot("a", 1, 2, 0)) }},
	} {
		src, sink := &fakeSource{}, &fakeSink{}
		r := New(src, sink)
		src.set(snapshot("a", 1, 1, 8))
		r.tick(base)
		tt.look(src)
		src.gone = []stats.Snapshot{snapshot("a", 1, 1, 20)}
		r.tick(base.Add(time.Second))
		src.set()
		r.tick(base.Add(2 * time.Second))
		var good, bad int64
		for _, p := range sink.samples {
			good, bad = good+p.Successes, bad+p.Failures.Total()
		}
		if good != 20 || bad != 4 {
			t.Errorf("%s: %d successes and %d failures are stored, want 20 and 4", tt.name, good, bad)
		}
	}
}

// The source keeps them from the first question on. Without a history nobody asks again.
func TestOnlyARecorderThatRunsAsksForUnloadedVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{}
		r := New(nil, &fakeSink{})
		r.SetSource(src)
		if src.asked {
			t.Error("a recorder that does not run asks")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		if !src.asked {
			t.Error("a recorder that begins to run does not ask")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
