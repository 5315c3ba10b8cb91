package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/infer"
	"nereid/engine/requests"
	"nereid/engine/tensor"
)

const (
	settingKey  = "capture." // before the name of a model
	queueLength = 64         // requests that wait to be written
)

// The bounds of Settings.
const (
	MaxBytes  = 16 << 20
	MaxBudget = 64 << 30
	MaxTime   = 7 * 24 * time.Hour
	MaxRules  = 100
)

// Settings say what is captured of a model.
type Settings struct {
	MaxBytes int64     `json:"maxBytes"` // of the tensors of one request
	Budget   int64     `json:"budget"`   // of all files of the model, in bytes; the oldest are removed first
	Until    time.Time `json:"until"`
	// LeaveOut are patterns of path.Match: inputs, outputs and parameters of such a name are left out.
	LeaveOut []string `json:"leaveOut"`
}

// Check returns an error that says what is wrong.
func (s *Settings) Check(now time.Time) error {
	switch left := s.Until.Sub(now); {
	case s.MaxBytes < 1 || s.MaxBytes > MaxBytes:
		return fmt.Errorf("%d bytes of a request cannot be captured; use 1 to %d", s.MaxBytes, MaxBytes)
	case s.Budget < 1 || s.Budget > MaxBudget:
		return fmt.Errorf("the budget cannot be %d bytes; use 1 to %d", s.Budget, int64(MaxBudget))
	case left <= 0 || left > MaxTime:
		return fmt.Errorf("the capture must end within %v; give the time in minutes", MaxTime)
	case len(s.LeaveOut) > MaxRules:
		return fmt.Errorf("%d rules are too many; use at most %d", len(s.LeaveOut), MaxRules)
	}
	for _, pattern := range s.LeaveOut {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("the rule %q is not a pattern; use names with * and ?", pattern)
		}
	}
	return nil
}

// Store keeps settings; *store.Store does.
type Store interface {
	SetSetting(ctx context.Context, key string, value json.RawMessage) error
	Settings(ctx context.Context) (map[string]json.RawMessage, error)
}

// Options of a Recorder. All but Memory are needed.
type Options struct {
	Log    *requests.Log
	Store  Store
	Folder string         // for the files; it need not exist
	Memory *tensor.Budget // counts the copies that wait; nil: nobody does
	Errors *slog.Logger
}

// Recorder captures contents. It is safe for concurrent use, but Run runs once.
type Recorder struct {
	o       Options
	active  atomic.Pointer[map[string]*capture] // of the models that are captured
	queue   chan *sample
	changed chan struct{} // for Run: mu's state has changed
	waiting sync.Map      // has the IDs of what is in the queue

	streams struct { // requests of decoupled models that have a response, and not the final one
		sync.Mutex
		open map[int64]*sample // by the ID of the record
	}

	mu      sync.Mutex // guards the following, and the files
	models  map[string]*capture
	ended   bool
	folders folders
}

// capture is what is captured of a model. A change replaces it, so that what waits for the old one is dropped.
type capture struct {
	Settings
	counts *counts
}

type counts struct{ captured, dropped atomic.Int64 }

type sample struct {
	capture  *capture
	contents *Contents
	size     int64
}

// New makes a Recorder with the settings of the store. Captures whose time is not over go on. The log's next IDs are
// higher than those of the files: the clock may be before that of the last run.
func New(ctx context.Context, o Options) (*Recorder, error) {
	r := &Recorder{o: o, queue: make(chan *sample, queueLength), changed: make(chan struct{}, 1),
		models: map[string]*capture{}, folders: folders{root: o.Folder}}
	r.streams.open = map[int64]*sample{}
	all, err := o.Store.Settings(ctx)
	if err != nil {
		return nil, err
	}
	for key, value := range all {
		name, ok := strings.CutPrefix(key, settingKey)
		c := &capture{counts: &counts{}}
		if !ok || string(value) == "null" {
			continue
		}
		if err := json.Unmarshal(value, &c.Settings); err != nil {
			return nil, fmt.Errorf("the setting %s: %w", key, err)
		}
		r.models[name] = c
	}
	last, err := r.folders.last()
	if err != nil {
		return nil, fmt.Errorf("the captured contents: %w", err)
	}
	o.Log.StartAfter(last)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.update()
	return r, nil
}

// update takes the captures whose time is not over into use, and returns when the next one ends. r.mu is held.
func (r *Recorder) update() (next time.Time) {
	now, active := time.Now(), map[string]*capture{}
	for name, c := range r.models {
		if !now.Before(c.Until) || r.ended {
			continue
		}
		active[name] = c
		if next.IsZero() || c.Until.Before(next) {
			next = c.Until
		}
	}
	r.active.Store(&active)
	r.dropStreams(active) // after Store, so that none is opened for an old capture after this
	if len(active) == 0 {
		r.o.Log.SetOffer(nil)
	} else {
		r.o.Log.SetOffer(r.offer)
	}
	return next
}

// offer copies a request that is to be captured, and its response. It does not block.
func (r *Recorder) offer(id int64, req *infer.Request, resp *infer.Response) {
	if n, _ := req.Answers(); n > 0 || !resp.Final {
		r.offerStreamed(id, req, resp, n == 0)
	} else if s := r.begin(id, req); s != nil {
		s.capture.addResponse(s.contents, resp, &s.size)
		r.enqueue(s)
	}
}

// offerStreamed is offer for a request with several responses. It is enqueued with the final one.
func (r *Recorder) offerStreamed(id int64, req *infer.Request, resp *infer.Response, first bool) {
	r.streams.Lock()
	defer r.streams.Unlock()
	s := r.streams.open[id]
	if s == nil && first {
		s = r.begin(id, req)
	}
	if s == nil {
		return
	}
	s.capture.addResponse(s.contents, resp, &s.size)
	if !resp.Final {
		r.streams.open[id] = s
		return
	}
	delete(r.streams.open, id)
	r.enqueue(s)
}

// begin copies a request that is to be captured, and reserves memory for its tensors. It returns nil if it is not to be
// captured, or is dropped.
func (r *Recorder) begin(id int64, req *infer.Request) *sample {
	model := req.ModelName
	if req.Served != nil {
		model = req.Served.Name()
	}
	c := (*r.active.Load())[model]
	if c == nil {
		return nil
	}
	if len(r.queue) == cap(r.queue) || r.o.Memory.Take(c.MaxBytes, 0) != nil {
		c.counts.dropped.Add(1)
		return nil
	}
	s := &sample{capture: c}
	s.contents, s.size = c.contentsOf(req)
	s.contents.ID, s.contents.Model = id, model
	return s
}

// enqueue hands a request that has its final response to Run, or drops it.
func (r *Recorder) enqueue(s *sample) {
	c := s.capture
	s.contents.TimeUS = time.Now().UnixMicro()
	r.o.Memory.Give(c.MaxBytes - s.size)
	r.waiting.Store(s.contents.ID, nil)
	select {
	case r.queue <- s:
	default:
		r.waiting.Delete(s.contents.ID)
		r.o.Memory.Give(s.size)
		c.counts.dropped.Add(1)
	}
}

// dropStreams drops the open requests of captures that are not active any more.
func (r *Recorder) dropStreams(active map[string]*capture) {
	r.streams.Lock()
	defer r.streams.Unlock()
	for id, s := range r.streams.open {
		if active[s.contents.Model] != s.capture {
			r.o.Memory.Give(s.capture.MaxBytes)
			delete(r.streams.open, id)
		}
	}
}

// Run writes what is captured until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		r.mu.Lock()
		next := r.update()
		r.mu.Unlock()
		var end <-chan time.Time
		if !next.IsZero() {
			end = time.After(time.Until(next))
		}
		for again := true; again; {
			select {
			case <-ctx.Done():
				r.end()
				return nil
			case <-end:
				again = false
			case <-r.changed:
				again = false
			case s := <-r.queue:
				r.write(s)
			}
		}
	}
}

// end captures nothing more.
func (r *Recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.update()
}

// write writes a file, unless the capture has ended or was changed since.
func (r *Recorder) write(s *sample) {
	defer r.waiting.Delete(s.contents.ID)
	defer r.o.Memory.Give(s.size)
	r.mu.Lock()
	defer r.mu.Unlock()
	if (*r.active.Load())[s.contents.Model] != s.capture {
		return
	}
	text, err := json.Marshal(s.contents)
	if err == nil {
		err = r.folders.add(s.contents.Model, s.contents.ID, text, s.capture.Budget)
	}
	if err != nil {
		if s.capture.counts.dropped.Add(1) == 1 {
			r.o.Errors.Error("the contents of a request cannot be kept", "model", s.contents.Model, "err", err)
		}
		return
	}
	s.capture.counts.captured.Add(1)
}

// Set captures a model from now on; nil: not any more. After it returned, nothing is written with older settings.
func (r *Recorder) Set(ctx context.Context, model string, s *Settings) error {
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s == nil && r.models[model] == nil {
		return nil
	}
	if err := r.o.Store.SetSetting(ctx, settingKey+model, value); err != nil {
		return err
	}
	if s == nil {
		delete(r.models, model)
	} else {
		r.models[model] = &capture{Settings: *s, counts: &counts{}}
	}
	r.update()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return nil
}

// Forget removes what was captured of a model. What waits to be written is dropped.
func (r *Recorder) Forget(model string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.models[model]; c != nil {
		r.models[model] = &capture{c.Settings, c.counts}
		r.update()
	}
	return r.folders.remove(model)
}

// Drop ends the capture of a model and removes what was captured.
func (r *Recorder) Drop(ctx context.Context, model string) error {
	return errors.Join(r.Set(ctx, model, nil), r.Forget(model))
}

// Status describes the capture of a model.
type Status struct {
	Settings
	On bool
	// Captured and Dropped count requests since the last Set. There was no room for those that were dropped.
	Captured, Dropped int64
	Kept              int   // files
	KeptBytes         int64 // of the files
}

// Status returns the state of a model, also of one that was never captured.
func (r *Recorder) Status(model string) (out Status, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.models[model]; c != nil {
		out = Status{Settings: c.Settings, Captured: c.counts.captured.Load(), Dropped: c.counts.dropped.Load(),
			On: time.Now().Before(c.Until)}
	}
	f, err := r.folders.of(model)
	if err != nil {
		return out, err
	}
	out.Kept, out.KeptBytes = len(f.files), f.size
	return out, nil
}

// Knows reports whether a model is captured, or was and its contents are there.
func (r *Recorder) Knows(model string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.models[model] != nil || r.folders.exists(model)
}

// Kept reports whether the contents of a request are there, or will be in a moment.
func (r *Recorder) Kept(model string, id int64) bool {
	if _, ok := r.waiting.Load(id); ok {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.folders.has(model, id)
}

// Last returns the newest kept requests of a model, at most n, the newest first.
func (r *Recorder) Last(model string, n int) (ids []int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, err := r.folders.of(model)
	if err != nil {
		return nil, err
	}
	for _, f := range d.files[max(0, len(d.files)-n):] {
		ids = append(ids, f.id)
	}
	slices.Reverse(ids)
	return ids, nil
}

// Contents returns what was captured of a request. Errors: fs.ErrNotExist.
func (r *Recorder) Contents(model string, id int64) (out Contents, err error) {
	r.mu.Lock()
	text, err := r.folders.read(model, id)
	r.mu.Unlock()
	if err != nil {
		return out, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a parameter may have more than 53 bits
	return out, d.Decode(&out)
}
