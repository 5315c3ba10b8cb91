package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"nereid/engine/stats"
	"nereid/store"
)

// Source is what a Recorder needs of the engine.
type Source interface {
	// Snapshots copies the counters of every loaded version, reusing dst's memory.
	Snapshots(dst []stats.Snapshot) []stats.Snapshot
	// Removed returns the last counters of the versions that were unloaded since the call before.
	Removed() []stats.Snapshot
	// Activity returns a channel that receives when anything happens that is not in snapshots made before the call.
	Activity() <-chan struct{}
}

// Sink is what a Recorder needs of the store. Its methods do not wait.
type Sink interface {
	RecordSamples([]store.Sample) bool
	RecordSpans([]store.Span) bool
	RecordEvent(store.Event) (store.Event, bool)
}

// healthy is a Sink that counts what it had to drop.
type healthy interface{ Health() store.Health }

// Listener is called with everything that is recorded, on the recording goroutine. It must not block. A nil function
// ignores its kind.
type Listener struct {
	Second func(Second) // must not change its argument
	Event  func(store.Event)
}

const (
	// spanEvery is how often the spans of loaded versions are stored while there are requests or loads, and
	// idleSpanEvery while there are none: each time writes to the disk. A crash shortens a span by up to that much.
	spanEvery, idleSpanEvery = 15 * time.Second, time.Hour
	// recentSeconds is how far Recent goes back. After as many seconds in which nothing happened, Run rests.
	recentSeconds = 60
	// SetBack is how far the clock must go back to count as set back. Then what was recorded lately is in the future.
	SetBack = time.Hour
	// restEvery is how often a resting Run looks, so that alerts see the readings of the machine.
	restEvery = 10 * time.Second
)

// Recorder records a Source. Its methods are safe for concurrent use, but Run runs once.
type Recorder struct {
	sink Sink

	prev, next []stats.Snapshot // used by Run's goroutine only, as are the following
	dropped    uint64
	active     bool // there was a request or a load since the spans were stored
	busy       bool // in the last tick there was a request or a load, or requests waited

	mu        sync.Mutex // guards the following; not held while listeners or the sink are called
	source    Source
	versions  map[key]*version
	resting   bool // nothing has happened since the last tick
	listeners []*Listener
}

type key struct {
	model   string
	version int64
}

// version is the recent past of a loaded version.
type version struct {
	epoch  uint64
	fromUS int64
	toUS   int64
	recent []store.Sample // seconds that were not idle, oldest first
}

// New makes a Recorder. src may be nil until SetSource.
func New(src Source, sink Sink) *Recorder {
	return &Recorder{source: src, sink: sink, versions: map[key]*version{}}
}

// SetSource sets the source of a Recorder that was made before its engine. An engine needs a Recorder for its events.
func (r *Recorder) SetSource(src Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.source = src
}

// Event records an event. It does not wait.
func (r *Recorder) Event(e Event) {
	row, _ := r.sink.RecordEvent(e.row()) // a drop is counted by the store
	for _, l := range r.listening() {
		if l.Event != nil {
			l.Event(row)
		}
	}
}

// Listen adds a listener and returns the function that removes it. The last calls may still run when that returns.
func (r *Recorder) Listen(l Listener) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(slices.Clone(r.listeners), &l)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.listeners = slices.DeleteFunc(slices.Clone(r.listeners), func(o *Listener) bool { return o == &l })
	}
}

// listening returns the listeners. The slice is not changed.
func (r *Recorder) listening() []*Listener {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listeners
}

// Run records every second until ctx is done, then the rest of the last second. After a minute in which nothing
// happened it leaves out seconds until something happens. The caller closes the store after it.
func (r *Recorder) Run(ctx context.Context) error {
	r.follow()
	timer := time.NewTimer(stats.UntilNext(time.Second, time.Now()))
	defer timer.Stop()
	lastSpans, lastActive := time.Now(), time.Now()
	var activity <-chan struct{} // not nil while it rests
	for {
		select {
		case <-ctx.Done():
			r.recordSpans(r.tick(time.Now().Truncate(time.Second)))
			return nil
		case <-activity: // what happened belongs to the second that runs now
			activity, lastActive = nil, time.Now()
			r.rest(false)
			timer.Reset(stats.UntilNext(time.Second, lastActive))
			continue
		case <-timer.C:
		}
		now := time.Now()
		next := r.activity()
		gone := r.tick(now.Truncate(time.Second).Add(-time.Second)) // the second that has just ended
		if r.busy || len(gone) > 0 {
			lastActive = now
		}
		if age := now.Sub(lastSpans); age >= idleSpanEvery || age >= spanEvery && r.active {
			r.recordSpans(gone)
			r.reportDropped()
			lastSpans, r.active = now, false
		} else if len(gone) > 0 {
			r.sink.RecordSpans(gone)
		}
		wait := time.Second
		if activity = nil; next != nil && now.Sub(lastActive) > recentSeconds*time.Second {
			activity, wait = next, restEvery
		}
		r.rest(activity != nil)
		timer.Reset(stats.UntilNext(wait, now))
	}
}

// follow lets the source keep the counters of versions that are unloaded, before the first tick asks for them.
func (r *Recorder) follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.source != nil {
		_ = r.source.Removed()
	}
}

// rest begins or ends a rest. Versions are loaded until its end.
func (r *Recorder) rest(begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp()
	r.resting = begins
}

// catchUp adds the seconds that a rest left out, up to now, to the time in which versions are loaded. r.mu is held.
func (r *Recorder) catchUp() {
	if r.resting {
		now := time.Now().Truncate(time.Second).UnixMicro()
		for _, v := range r.versions {
			v.toUS = max(v.toUS, now)
		}
	}
}

// activity returns the channel of the source, nil without a source.
func (r *Recorder) activity() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.source == nil {
		return nil
	}
	return r.source.Activity()
}

// tick records what happened since the last tick as the second that begins at start. It returns the spans of versions
// that were unloaded.
func (r *Recorder) tick(start time.Time) (gone []store.Span) {
	r.mu.Lock()
	src := r.source
	r.mu.Unlock()
	r.busy = false
	if src == nil {
		return nil
	}
	startUS := start.UnixMicro()
	r.prev, r.next = r.next, src.Snapshots(r.prev)
	sec := Second{StartUS: startUS, Samples: make([]store.Sample, 0, len(r.next)),
		Pending: make([]int64, 0, len(r.next))}
	var busy []store.Sample
	for i := range r.next {
		next := &r.next[i]
		j, found := slices.BinarySearchFunc(r.prev, next, compare)
		var prev *stats.Snapshot
		if found {
			prev = &r.prev[j]
		}
		d := difference(prev, next, startUS)
		sec.Samples = append(sec.Samples, d)
		sec.Pending = append(sec.Pending, next.Pending)
		if !idle(&d) {
			busy = append(busy, d)
		}
		r.busy = r.busy || next.Pending > 0 || !found
	}
	busy = r.left(src.Removed(), startUS, busy)
	r.busy = r.busy || len(busy) > 0
	r.mu.Lock()
	gone = r.update(sec)
	r.mu.Unlock()
	r.active = r.active || len(busy) > 0
	r.sink.RecordSamples(busy)
	for _, l := range r.listening() {
		if l.Second != nil {
			l.Second(sec)
		}
	}
	return gone
}

// left appends what unloaded versions counted since they were seen last.
func (r *Recorder) left(removed []stats.Snapshot, startUS int64, busy []store.Sample) []store.Sample {
	for i := range removed {
		last := &removed[i]
		var seen *stats.Snapshot
		for _, all := range [][]stats.Snapshot{r.prev, r.next} { // it was unloaded before the last look or after it
			if j, ok := slices.BinarySearchFunc(all, last, compare); ok && all[j].Epoch == last.Epoch {
				seen = &all[j]
			}
		}
		if d := difference(seen, last, startUS); !idle(&d) {
			busy = append(busy, d)
		}
	}
	return busy
}

func compare(s stats.Snapshot, t *stats.Snapshot) int {
	return cmp.Or(cmp.Compare(s.Model, t.Model), cmp.Compare(s.Version, t.Version))
}

// update adds a second to the recent past of its versions. r.mu is held.
func (r *Recorder) update(sec Second) (gone []store.Span) {
	const second = 1_000_000
	seen := make(map[key]bool, len(sec.Samples))
	for i := range sec.Samples {
		p := &sec.Samples[i]
		k := key{p.Model, p.Version}
		seen[k] = true
		v := r.versions[k]
		if v != nil && (v.epoch != r.next[i].Epoch || // unloaded and loaded again
			v.toUS-sec.StartUS > SetBack.Microseconds()) {
			gone = append(gone, v.span(k))
			v = nil
		}
		if v == nil {
			r.active = true
			v = &version{epoch: r.next[i].Epoch, fromUS: sec.StartUS}
			r.versions[k] = v
		}
		v.toUS = max(v.toUS, sec.StartUS+second)
		if !idle(p) {
			v.recent = append(v.recent, *p)
		}
		old := 0
		for old < len(v.recent) && v.recent[old].StartUS <= sec.StartUS-recentSeconds*second {
			old++
		}
		v.recent = slices.Delete(v.recent, 0, old)
	}
	for k, v := range r.versions {
		if !seen[k] {
			gone = append(gone, v.span(k))
			delete(r.versions, k)
		}
	}
	return gone
}

func (v *version) span(k key) store.Span {
	return store.Span{Model: k.model, Version: k.version, FromUS: v.fromUS, ToUS: v.toUS}
}

// recordSpans stores how long each version has been loaded, and more spans.
func (r *Recorder) recordSpans(more []store.Span) { r.sink.RecordSpans(append(more, r.Loaded()...)) }

// reportDropped records an event if the store dropped rows since the last call.
func (r *Recorder) reportDropped() {
	s, ok := r.sink.(healthy)
	if !ok {
		return
	}
	h := s.Health()
	if n := h.DroppedSamples + h.DroppedEvents; n > r.dropped {
		text := fmt.Sprintf("%d samples and events of the history were lost: the database fell behind", n-r.dropped)
		if h.LastError != "" {
			text += ", or could not be written: " + h.LastError
		}
		r.dropped = n
		r.Event(Event{Kind: HistoryDropped, Text: text})
		r.dropped += s.Health().DroppedEvents - h.DroppedEvents // if this event is dropped, that is not reported
	}
}

// Loaded returns the spans of the versions that are loaded now, up to the last second.
func (r *Recorder) Loaded() []store.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp()
	out := make([]store.Span, 0, len(r.versions))
	for k, v := range r.versions {
		out = append(out, v.span(k))
	}
	return out
}

// Recent returns the last 60 seconds of a loaded version: the seconds in which it was not idle, oldest first, and the
// end of the last recorded second in microseconds. The end is 0 if the version is not loaded.
func (r *Recorder) Recent(model string, number int64) (seconds []store.Sample, endUS int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp()
	v := r.versions[key{model, number}]
	if v == nil {
		return nil, 0
	}
	return slices.Clone(v.recent), v.toUS
}
