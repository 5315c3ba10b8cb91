package alerts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"nereid/app/history"
	"nereid/store"
)

const (
	rulesKey, openKey = "alerts.rules", "alerts.open" // settings
	// queued is how many seconds and events may wait for Run. More are dropped: a rule then has less evidence.
	queued = 64
	// ended is how many alerts that have ended are kept for lists. The history has all of them.
	ended = 50
	// looks is how often a version without new requests is compared: its last ones are stored with a delay.
	looks = 2
	// baselineAge is after how long a baseline is computed again.
	baselineAge = time.Hour
)

// Options of a Watch. Notify may be nil.
type Options struct {
	Store    *store.Store
	Recorder *history.Recorder
	// Readings returns the last readings of the machine and the models.
	Readings func() []history.Reading
	// Refused returns how many requests were refused since the start. nil: nobody counts them.
	Refused func() uint64
	// Notify is called by Run for an alert that is raised or has ended, unless its model is silenced. It must not wait.
	Notify func(Alert)
	Log    *slog.Logger
}

// Watch raises and ends alerts. Its methods are safe for concurrent use, but Run runs once.
type Watch struct {
	o      Options
	inbox  chan any // history.Second and store.Event
	remove func()

	// Used by Run only.
	versions    map[key]*watched
	comparisons map[key]*comparison
	baselines   map[string]*known
	server      watched // its requests are those of all models and those that were refused; the latter are its failures
	refused     uint64  // up to the last second

	mu     sync.Mutex
	nowUS  int64            // the end of the last second; written by Run only, with mu held
	rules  map[string]Rules // by model; guarded by mu
	open   []*Alert         // guarded by mu
	past   []Alert          // that have ended, newest first; guarded by mu
	lastID int64            // guarded by mu
	// dismissed are alerts that a user has ended. They are not raised again before their value is within the limit;
	// guarded by mu.
	dismissed map[rule]bool
}

// rule is one rule of one version.
type rule struct {
	key
	kind Kind
}

type key struct {
	model   string
	version int64
}

// known is a baseline and when it was computed.
type known struct {
	atUS   int64
	limits map[Kind]float64
}

// New makes a Watch with the rules and the open alerts of the store. It listens to the recorder until Run returns.
func New(ctx context.Context, o Options) (*Watch, error) {
	w := &Watch{o: o, inbox: make(chan any, queued), versions: map[key]*watched{},
		comparisons: map[key]*comparison{}, baselines: map[string]*known{}, rules: map[string]Rules{},
		dismissed: map[rule]bool{}}
	for name, to := range map[string]any{rulesKey: &w.rules, openKey: &w.open} {
		text, err := o.Store.Setting(ctx, name)
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	if w.rules == nil {
		w.rules = map[string]Rules{}
	}
	for _, a := range w.open {
		w.lastID = max(w.lastID, a.ID)
		a.knownUS = time.Now().UnixMicro()
	}
	put := func(v any) {
		select {
		case w.inbox <- v:
		default:
		}
	}
	w.remove = o.Recorder.Listen(history.Listener{Second: func(s history.Second) { put(s) },
		Event: func(e store.Event) {
			if wanted(e.Kind) {
				put(e)
			}
		}})
	return w, nil
}

func wanted(kind string) bool {
	return kind == history.Load || kind == history.Reload || kind == history.ProcessEnded
}

// Run decides until ctx is done.
func (w *Watch) Run(ctx context.Context) error {
	defer w.remove()
	for {
		select {
		case <-ctx.Done():
			return nil
		case v := <-w.inbox:
			switch v := v.(type) {
			case history.Second:
				w.second(ctx, v)
			case store.Event:
				w.event(ctx, v)
			}
		}
	}
}

// event notes a load, or the end of a process.
func (w *Watch) event(ctx context.Context, e store.Event) {
	k := key{e.Model, e.Version}
	if e.Kind == history.ProcessEnded {
		w.version(k).restarts = append(w.version(k).restarts, e.TimeUS)
		return
	}
	second := time.Second.Microseconds()
	c := &comparison{model: e.Model, version: e.Version, startUS: (e.TimeUS/second + 1) * second}
	since, err := loadedBefore(ctx, w.o.Store, e.Model, e.TimeUS)
	if err != nil {
		w.failed(err)
	}
	c.sinceUS = since
	c.schedule(c.startUS)
	w.comparisons[k] = c
	if e.Kind == history.Reload {
		w.end(ctx, func(a *Alert) bool { return a.Kind == Version && a.Model == e.Model && a.Version == e.Version })
	}
}

func (w *Watch) version(k key) *watched {
	v := w.versions[k]
	if v == nil {
		v = &watched{}
		w.versions[k] = v
	}
	return v
}

// second applies the rules to a second that has ended.
func (w *Watch) second(ctx context.Context, s history.Second) {
	w.mu.Lock()
	before := w.nowUS
	w.nowUS = s.StartUS + time.Second.Microseconds()
	w.mu.Unlock()
	if before-w.nowUS > history.SetBack.Microseconds() {
		w.forgetTimes()
	}
	w.applyRefused(ctx, s)
	memory := w.readings(s.StartUS)
	loaded := make(map[key]bool, len(s.Samples))
	for i := range s.Samples {
		p := s.Samples[i]
		k := key{p.Model, p.Version}
		loaded[k] = true
		if c := w.comparisons[k]; c != nil && p.Requests > 0 {
			c.looks = 0
		}
		v := w.version(k)
		v.add(second{startUS: s.StartUS, sample: p, pending: s.Pending[i]})
		if m, ok := memory[p.Model]; ok {
			v.memory = append(v.memory[max(len(v.memory)+1-leastReadings, 0):], m)
		}
		w.apply(ctx, k, v)
	}
	for k, c := range w.comparisons {
		switch {
		case c.told || !loaded[k] && w.nowUS > c.startUS+window.Microseconds() || c.over(w.nowUS):
			delete(w.comparisons, k)
		case w.nowUS >= c.nextUS && loaded[k] && c.looks < looks:
			c.looks++
			c.schedule(w.nowUS)
			w.compare(ctx, k, c)
		}
	}
	for k := range w.versions {
		if !loaded[k] {
			delete(w.versions, k)
			w.forget(k)
			w.end(ctx, func(a *Alert) bool { return a.Model == k.model && a.Version == k.version })
		}
	}
	w.end(ctx, func(a *Alert) bool {
		served := a.Kind == Version && loaded[key{a.Model, a.Version}]
		return !served && w.nowUS-a.knownUS > forgets.Microseconds()
	})
}

// forgetTimes drops all that has a time, after the clock was set back: the times are in the future. Alerts stay open.
func (w *Watch) forgetTimes() {
	clear(w.versions)
	clear(w.comparisons)
	clear(w.baselines)
	w.server = watched{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.open {
		a.SinceUS, a.knownUS, a.clearUS = min(a.SinceUS, w.nowUS), w.nowUS, 0
	}
}

// applyRefused applies the rule of the server to a second that has ended.
func (w *Watch) applyRefused(ctx context.Context, s history.Second) {
	if w.o.Refused == nil {
		return
	}
	refused := w.o.Refused()
	all := store.Sample{StartUS: s.StartUS, Failures: store.Failures{Rejected: int64(refused - w.refused)}}
	all.Requests, w.refused = all.Failures.Rejected, refused
	for i := range s.Samples {
		all.Requests += s.Samples[i].Requests
	}
	w.server.add(second{startUS: s.StartUS, sample: all})
	rules, is := w.Rules(Server), rule{key{Server, 0}, Refused}
	if rules.Rules[Refused].Off {
		w.end(ctx, func(a *Alert) bool { return a.Kind == Refused })
		return
	}
	limit := w.limits(ctx, Server, rules)[Refused]
	f := w.server.failing(limit)
	if !w.update(ctx, is, limit, f) && f.over {
		w.raise(ctx, Alert{Kind: Refused, Value: f.value, Limit: limit})
	}
}

// forget drops what was dismissed of a version.
func (w *Watch) forget(k key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.dismissed, func(r rule, _ bool) bool { return r.key == k })
}

// readings returns the memory of each model, once for every reading.
func (w *Watch) readings(startUS int64) map[string]float64 {
	if w.o.Readings == nil || startUS/time.Second.Microseconds()%10 != 0 {
		return nil
	}
	out := map[string]float64{}
	for _, r := range w.o.Readings() {
		if r.Name == history.Memory && r.Model != "" {
			out[r.Model] = r.Value
		}
	}
	return out
}

// apply raises and ends the alerts of a version's rules.
func (w *Watch) apply(ctx context.Context, k key, v *watched) {
	rules := w.Rules(k.model)
	limits := w.limits(ctx, k.model, rules)
	for kind, find := range map[Kind]func(float64) finding{Failures: v.failing, P99: v.slow, Queue: v.waiting,
		Memory: v.taking, Restarts: v.restarting} {
		limit, ok := limits[kind]
		if !ok || rules.Rules[kind].Off {
			w.end(ctx, func(a *Alert) bool { return a.Kind == kind && a.Model == k.model && a.Version == k.version })
			continue
		}
		f := find(limit)
		if !w.update(ctx, rule{k, kind}, limit, f) && f.over && !w.explained(k, kind) {
			w.raise(ctx, Alert{Kind: kind, Model: k.model, Version: k.version, Value: f.value, Limit: limit})
		}
	}
}

// update applies a finding to the alert of a rule. It returns false if there is none, neither open nor dismissed.
func (w *Watch) update(ctx context.Context, r rule, limit float64, f finding) bool {
	is := func(a *Alert) bool { return a.Kind == r.kind && a.Model == r.model && a.Version == r.version }
	w.mu.Lock()
	if f.under {
		delete(w.dismissed, r)
	}
	at := slices.IndexFunc(w.open, is)
	if at < 0 {
		defer w.mu.Unlock()
		return w.dismissed[r]
	}
	a := w.open[at]
	if f.known {
		a.knownUS = w.nowUS
	}
	if f.known && !f.under { // an alert that has ended says what was wrong, not what is right now
		a.Value, a.Limit = f.value, limit
	}
	a.knownUS = cmp.Or(a.knownUS, w.nowUS) // it is of an earlier run
	switch {
	case !f.known:
	case !f.under:
		a.clearUS = 0
	case a.clearUS == 0:
		a.clearUS = w.nowUS
	}
	over := a.clearUS != 0 && w.nowUS-a.clearUS >= holds.Microseconds()
	w.mu.Unlock()
	if over {
		w.end(ctx, is)
	}
	return true
}

// explained reports whether another alert says why a rule fails, or is about to: one cause raises one alert.
func (w *Watch) explained(k key, kind Kind) bool {
	if kind == Memory || kind == Restarts {
		return false
	}
	if c := w.comparisons[k]; c != nil && c.sinceUS != 0 && w.nowUS < c.startUS+window.Microseconds() &&
		!w.Rules(k.model).Rules[Version].Off {
		return true // it is being compared; that needs up to a minute
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.open, func(a *Alert) bool {
		return a.Model == k.model && a.Version == k.version && a.Kind != Memory && a.Kind != Restarts
	})
}

// compare raises an alert if a version is worse than what served before.
func (w *Watch) compare(ctx context.Context, k key, c *comparison) {
	if w.Rules(k.model).Rules[Version].Off {
		return
	}
	a, err := compare(ctx, w.o.Store, c, w.nowUS)
	if err != nil {
		w.failed(err)
		return
	}
	if a == nil {
		return
	}
	c.told = true
	w.mu.Lock()
	other := slices.ContainsFunc(w.open, func(a *Alert) bool {
		return a.Model == k.model && a.Version == k.version && a.SinceUS >= c.startUS &&
			(a.Kind == Failures || a.Kind == P99 || a.Kind == Queue || a.Kind == Version)
	})
	w.mu.Unlock()
	if !other {
		w.raise(ctx, *a)
	}
}

// limits returns the limits that hold for a model.
func (w *Watch) limits(ctx context.Context, model string, rules Rules) map[Kind]float64 {
	b := w.baselines[model]
	if b == nil || w.nowUS-b.atUS > baselineAge.Microseconds() {
		limits, err := baseline(ctx, w.o.Store, model, time.UnixMicro(w.nowUS))
		if err != nil {
			w.failed(err)
			limits = map[Kind]float64{Failures: leastFailures, Restarts: leastRestarts}
		}
		b = &known{atUS: w.nowUS, limits: limits}
		if limits[P99] == 0 { // too little is known yet: look again soon
			b.atUS -= (baselineAge - 5*time.Minute).Microseconds()
		}
		w.baselines[model] = b
	}
	return merge(b.limits, rules)
}

// merge returns limits with those of the user in their place.
func merge(limits map[Kind]float64, rules Rules) map[Kind]float64 {
	out := maps.Clone(limits)
	for kind, r := range rules.Rules {
		if r.Limit > 0 {
			out[kind] = r.Limit
		}
	}
	return out
}

// raise opens an alert, records it and notifies.
func (w *Watch) raise(ctx context.Context, a Alert) {
	w.mu.Lock()
	w.lastID++
	a.ID, a.SinceUS, a.knownUS = w.lastID, w.nowUS, w.nowUS
	w.open = append(w.open, &a)
	w.mu.Unlock()
	w.changed(ctx, a, history.Alert)
}

// end ends the open alerts that a function selects. Any goroutine may call it.
func (w *Watch) end(ctx context.Context, selects func(*Alert) bool) {
	var gone []Alert
	w.mu.Lock()
	w.open = slices.DeleteFunc(w.open, func(a *Alert) bool {
		if !selects(a) {
			return false
		}
		a.EndUS = max(w.nowUS, a.SinceUS)
		gone = append(gone, *a)
		return true
	})
	for _, a := range gone {
		w.past = append([]Alert{a}, w.past[:min(len(w.past), ended-1)]...)
	}
	w.mu.Unlock()
	for _, a := range gone {
		w.changed(ctx, a, history.AlertEnded)
	}
}

// changed stores the open alerts, records an event and notifies.
func (w *Watch) changed(ctx context.Context, a Alert, kind string) {
	w.mu.Lock()
	text, err := json.Marshal(w.open)
	silenced := w.rules[a.Model].SilencedUntilMS > time.Now().UnixMilli()
	w.mu.Unlock()
	if err == nil {
		err = w.o.Store.SetSetting(ctx, openKey, text)
	}
	if err != nil {
		w.failed(err)
	}
	w.o.Recorder.Event(history.Event{Kind: kind, Model: a.Model, Version: a.Version, Text: a.Text()})
	if w.o.Notify != nil && !silenced {
		w.o.Notify(a)
	}
}

func (w *Watch) failed(err error) { w.o.Log.Warn("alerts cannot use the history", "err", err) }

// Alerts returns the open alerts and those that have ended lately, each the newest first.
func (w *Watch) Alerts() (open, past []Alert) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range slices.Backward(w.open) {
		open = append(open, *a)
	}
	return open, slices.Clone(w.past)
}

// Rules returns the rules of a model.
func (w *Watch) Rules(model string) Rules {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rules[model]
}

// SetRules keeps the rules of a model.
func (w *Watch) SetRules(ctx context.Context, model string, r Rules) error {
	if err := r.Check(model); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock() // also while storing: what is stored last is what holds
	all := maps.Clone(w.rules)
	all[model] = r
	if len(r.Rules) == 0 && r.SilencedUntilMS == 0 {
		delete(all, model)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := w.o.Store.SetSetting(ctx, rulesKey, text); err != nil {
		return err
	}
	w.rules = all
	return nil
}

// Limits returns the limits that follow from a model's past.
func (w *Watch) Limits(ctx context.Context, model string) (map[Kind]float64, error) {
	return baseline(ctx, w.o.Store, model, time.Now())
}

// InForce returns the limits that hold for a model, without those that its user switched off.
func (w *Watch) InForce(ctx context.Context, model string) (map[Kind]float64, error) {
	usual, err := w.Limits(ctx, model)
	if err != nil {
		return nil, err
	}
	own := w.Rules(model)
	out := merge(usual, own)
	maps.DeleteFunc(out, func(k Kind, _ float64) bool { return own.Rules[k].Off })
	return out, nil
}

// Dismiss ends an open alert. It returns store.ErrNotFound if there is none.
func (w *Watch) Dismiss(ctx context.Context, id int64) error {
	w.mu.Lock()
	at := slices.IndexFunc(w.open, func(a *Alert) bool { return a.ID == id })
	if at >= 0 {
		a := w.open[at]
		w.dismissed[rule{key{a.Model, a.Version}, a.Kind}] = true
	}
	w.mu.Unlock()
	if at < 0 {
		return fmt.Errorf("alert %d: %w", id, store.ErrNotFound)
	}
	w.end(ctx, func(a *Alert) bool { return a.ID == id })
	return nil
}
