package console

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/engine/inferencepb"
	"nereid/engine/repo"
	"nereid/store"
)

// Tuner searches for models' best configurations, by measuring them in servers of its own.
type Tuner interface {
	// Plan says what a search would try. An error is the request's.
	Plan(m TuneModel, r *api.StartTuning) (api.TuningPlan, error)
	// Tune searches until it has come to its end, or ctx has. see hears of all that happens, on one goroutine at a time, until
	// Tune returns; nothing that it started is left then.
	Tune(ctx context.Context, m TuneModel, r *api.StartTuning, see func(TuneEvent)) error
}

// TuneModel is a model that is to be tuned.
type TuneModel struct {
	Name         string   // of its folder
	With         []string // the same of others that are tuned at the same time
	Repositories []string // folders; the first one has the model
	// Config answers the configuration of the model or of one that works for it, as the server completes it; nil: unknown.
	Config func(name string) *inferencepb.ModelConfig
}

// TuneEvent is something that a search tells. What is nil did not happen.
type TuneEvent struct {
	Plan *api.TuningPlan // what the models turned out to allow, before the first trial
	Now  *api.TuningNow
	// Trial is one more. Config comes with it if its configuration is one more too: with the index that Trial names.
	Trial  *api.TuningTrial
	Config *TunedConfig
	// Best and Present are indexes of trials, -1 for none; they count with Trial.
	Best, Present int
}

// TunedConfig is a configuration and the files that it is made of: those that change.
type TunedConfig struct {
	Changes []api.TuningChange
	Texts   []api.TuningText
}

// measuring is what measures on this machine: one thing at a time, since two would measure each other.
type measuring struct {
	mu sync.Mutex
	by string // guarded by mu; "" while nothing does
}

// begin answers conflict if something measures; else end is to be called.
func (m *measuring) begin(what string) (end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by != "" {
		return nil, fail(api.CodeConflict, "%s; two at a time would measure each other: wait for its end, or stop it", m.by)
	}
	m.by = what
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.by = ""
	}, nil
}

// tunings are the tuning that runs, of which there is one at a time. It and those before it are in the store.
type tunings struct {
	mu     sync.Mutex
	run    *tuningRecord // guarded by mu, as is cancel; nil while none runs
	cancel context.CancelFunc
}

// tuningRecord is a tuning as the store has it.
type tuningRecord struct {
	Tuning api.Tuning
	// Texts are the files of Tuning.Configs.
	Texts api.List[api.TuningTexts]
}

// running answers the tuning that runs, if it is the one of that id; from is the first trial that is wanted. What it answers
// is not changed any more.
func (l *tunings) running(id int64, from int) (tuningRecord, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == nil || l.run.Tuning.ID != id {
		return tuningRecord{}, false
	}
	out := *l.run
	out.Tuning.Configs, out.Texts = slices.Clone(out.Tuning.Configs), slices.Clone(out.Texts)
	out.cut(from)
	out.Tuning.Trials = slices.Clone(out.Tuning.Trials)
	return out, true
}

// cut leaves the trials before from away.
func (t *tuningRecord) cut(from int) {
	t.Tuning.From = min(max(from, 0), len(t.Tuning.Trials))
	t.Tuning.Trials = t.Tuning.Trials[t.Tuning.From:]
}

// see takes an event of the search.
func (t *tuningRecord) see(e TuneEvent) {
	u := &t.Tuning
	if e.Plan != nil {
		u.Plan, u.Most = *e.Plan, e.Plan.Most
	}
	if e.Config != nil {
		u.Configs = append(u.Configs, api.TuningConfig{Changes: e.Config.Changes})
		t.Texts = append(t.Texts, api.TuningTexts{Texts: e.Config.Texts})
	}
	if e.Trial != nil {
		u.Trials, u.Now = append(u.Trials, *e.Trial), nil
		u.Measured = len(u.Trials)
		u.Best, u.Present, u.BestChanges = at(u.Trials, e.Best), at(u.Trials, e.Present), nil
		if u.Best != nil {
			u.BestChanges = u.Configs[u.Best.Config].Changes
		}
	}
	if e.Now != nil {
		u.Now = e.Now
	}
}

// at is a copy of the trial at an index, nil for -1.
func at(trials []api.TuningTrial, i int) *api.TuningTrial {
	if i < 0 {
		return nil
	}
	t := trials[i]
	return &t
}

// tuneModel makes what the tuner is to know of a model.
func (c *Console) tuneModel(name string, r *api.StartTuning) (TuneModel, error) {
	st, p, err := c.locate(name)
	switch {
	case err != nil:
		return TuneModel{}, err
	case c.o.Tuner == nil:
		return TuneModel{}, fail(api.CodeUnsupported, "this server cannot tune models; use nereid tune")
	case p.folder == "":
		return TuneModel{}, fail(api.CodeNotFound, "model %q has no folder in a repository", name)
	case p.copied:
		return TuneModel{}, fail(api.CodeUnsupported, "model %q is in %s; models are tuned in folders: copy it into one first", name, p.repository)
	}
	cfg := runningConfig(st)
	if cfg == nil {
		cfg = st.Config
	}
	if cfg == nil {
		return TuneModel{}, fail(api.CodeUnavailable, "nothing is known of the configuration of model %q; load it first", name)
	}
	m := TuneModel{Name: filepath.Base(p.folder), Repositories: []string{p.repository}, Config: func(part string) *inferencepb.ModelConfig {
		if part == filepath.Base(p.folder) {
			return cfg
		}
		st, _ := c.o.Engine.Model(c.beside(name, part))
		if running := runningConfig(st); running != nil {
			return running
		}
		return st.Config
	}}
	for _, other := range r.With {
		if _, p, err := c.locate(other); err != nil {
			return TuneModel{}, err
		} else if p.folder == "" || p.copied {
			return TuneModel{}, fail(api.CodeUnsupported, "model %q has no folder of a repository; models are tuned in folders", other)
		}
		_, plain := repo.Split(other)
		m.With = append(m.With, plain)
	}
	for _, r := range c.o.Repositories {
		if r != p.repository && !remote(r) {
			m.Repositories = append(m.Repositories, r)
		}
	}
	return m, nil
}

// beside is the name by which the engine knows a model that works for another one, by its folder's name.
func (c *Console) beside(name, part string) string {
	if namespace, plain := repo.Split(name); namespace != "" && c.o.Namespaces {
		if part == plain {
			return name
		}
		if key := repo.Key(namespace, part); c.names()[key] {
			return key
		}
	}
	return part
}

// getTunings answers the heads of a model's tunings.
func (c *Console) getTunings(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	_, p, err := c.locate(name)
	if err != nil {
		return err
	}
	list, err := c.o.Store.Tunings(r.Context(), name)
	if err != nil {
		return err
	}
	out := api.Tunings{Writable: true}
	if err := changeable(name, p); err != nil {
		out.Writable, out.WhyNot = false, err.Error()
	}
	for _, t := range list {
		head := api.TuningHead{}
		if now, ok := c.tunings.running(t.ID, 0); ok {
			head = now.Tuning.TuningHead
		} else if err := json.Unmarshal(t.Head, &head); err != nil {
			return err
		} else {
			orphaned(&head)
		}
		head.ID = t.ID
		out.Tunings = append(out.Tunings, head)
	}
	return reply(w, out)
}

// postTuningPlan says what a search would try.
func (c *Console) postTuningPlan(w http.ResponseWriter, r *http.Request) error {
	var req api.StartTuning
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	m, err := c.tuneModel(r.PathValue("name"), &req)
	if err != nil {
		return err
	}
	plan, err := c.o.Tuner.Plan(m, &req)
	if err != nil {
		return fail(api.CodeInvalid, "%v", err)
	}
	return reply(w, plan)
}

// postTuning begins a tuning. It goes on when the page is closed.
func (c *Console) postTuning(w http.ResponseWriter, r *http.Request) error {
	var req api.StartTuning
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	name := r.PathValue("name")
	m, err := c.tuneModel(name, &req)
	if err != nil {
		return err
	}
	plan, err := c.o.Tuner.Plan(m, &req)
	if err != nil {
		return fail(api.CodeInvalid, "%v", err)
	}
	end, err := c.measuring.begin("model " + quote(name) + " is being tuned")
	if err != nil {
		return err
	}
	t := &tuningRecord{Tuning: api.Tuning{TuningHead: api.TuningHead{Model: name, State: api.TuningRunning, StartedMs: time.Now().UnixMilli(), Request: req,
		Most: plan.Most}, Plan: plan}}
	row, err := t.row()
	if err == nil {
		t.Tuning.ID, err = c.o.Store.AddTuning(r.Context(), row)
	}
	if err != nil {
		end()
		return err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	l := &c.tunings
	l.mu.Lock()
	l.run, l.cancel = t, cancel
	l.mu.Unlock()
	started, _ := l.running(t.Tuning.ID, 0)
	c.wg.Go(func() { c.runTuning(ctx, m, started.Tuning.ID, req, end) })
	writeJSON(w, http.StatusAccepted, started.Tuning)
	return nil
}

// row is a tuning for the store.
func (t *tuningRecord) row() (store.Tuning, error) {
	head, err := json.Marshal(t.Tuning.TuningHead)
	if err != nil {
		return store.Tuning{}, err
	}
	body, err := json.Marshal(t)
	return store.Tuning{ID: t.Tuning.ID, Model: t.Tuning.Model, StartedUS: t.Tuning.StartedMs * 1000, Head: head, Body: body}, err
}

// runTuning searches, and keeps each measurement in the store, so that it is there whatever becomes of this process.
func (c *Console) runTuning(ctx context.Context, m TuneModel, id int64, req api.StartTuning, end func()) {
	l := &c.tunings
	c.log.Info("tuning a model", "model", m.Name)
	err := c.o.Tuner.Tune(ctx, m, &req, func(e TuneEvent) {
		l.mu.Lock()
		l.run.see(e)
		l.mu.Unlock()
		if e.Trial != nil || e.Plan != nil {
			t, _ := l.running(id, 0)
			c.keepTuning(ctx, &t)
		}
	})
	t, _ := l.running(id, 0)
	u := &t.Tuning
	u.State, u.EndedMs, u.Now = api.TuningDone, time.Now().UnixMilli(), nil
	switch {
	case ctx.Err() != nil:
		u.State = api.TuningStopped
	case err != nil:
		u.State, u.Reason = api.TuningFailed, err.Error()
	}
	c.log.Info("a tuning has ended", "model", m.Name, "state", u.State, "measured", u.Measured, "reason", u.Reason)
	c.keepTuning(ctx, &t)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
	l.run, l.cancel = nil, nil
	end()
}

// keepTuning stores a tuning as it is now.
func (c *Console) keepTuning(ctx context.Context, t *tuningRecord) {
	row, err := t.row()
	if err == nil {
		err = c.o.Store.SetTuning(context.WithoutCancel(ctx), row)
	}
	if err != nil {
		c.log.Error("a tuning is not kept", "model", t.Tuning.Model, "err", err)
	}
}

// tuning finds the tuning that a path names, if it is of that path's model.
func (c *Console) tuning(r *http.Request, from int) (t tuningRecord, running bool, err error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return t, false, fail(api.CodeNotFound, "%s is not the number of a tuning", quote(r.PathValue("id")))
	}
	if t, running = c.tunings.running(id, from); !running {
		row, err := c.o.Store.Tuning(r.Context(), id)
		if err != nil {
			return t, false, err
		}
		if err := json.Unmarshal(row.Body, &t); err != nil {
			return t, false, err
		}
		t.Tuning.ID, t.Tuning.Model = row.ID, row.Model
		orphaned(&t.Tuning.TuningHead)
		t.Tuning.Now = nil
		t.cut(from)
	}
	if t.Tuning.Model != r.PathValue("name") {
		return t, false, fail(api.CodeNotFound, "tuning %d is of another model", id)
	}
	return t, running, nil
}

// orphaned marks a tuning that the store has as running, and that does not run: its server ended before it.
func orphaned(h *api.TuningHead) {
	if h.State == api.TuningRunning {
		h.State, h.Reason = api.TuningStopped, "the server ended before the search did"
	}
}

func (c *Console) getTuning(w http.ResponseWriter, r *http.Request) error {
	from, _ := strconv.Atoi(r.URL.Query().Get("from")) // none: all
	t, _, err := c.tuning(r, from)
	if err != nil {
		return err
	}
	return reply(w, t.Tuning)
}

// postTuningStop stops the tuning that runs. It has ended soon after, with what was measured.
func (c *Console) postTuningStop(w http.ResponseWriter, r *http.Request) error {
	t, running, err := c.tuning(r, 0)
	if err != nil {
		return err
	}
	c.tunings.mu.Lock()
	defer c.tunings.mu.Unlock()
	if !running || c.tunings.run == nil || c.tunings.run.Tuning.ID != t.Tuning.ID {
		return fail(api.CodeConflict, "tuning %d has ended", t.Tuning.ID)
	}
	c.tunings.cancel()
	return reply(w, t.Tuning)
}

func (c *Console) deleteTuning(w http.ResponseWriter, r *http.Request) error {
	t, running, err := c.tuning(r, 0)
	if err != nil {
		return err
	}
	if running {
		return fail(api.CodeConflict, "tuning %d is under way; stop it first", t.Tuning.ID)
	}
	if err := c.o.Store.DeleteTuning(r.Context(), t.Tuning.ID); err != nil {
		return err
	}
	return noContent(w)
}
