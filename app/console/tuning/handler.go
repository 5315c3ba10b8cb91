package tuning

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/configs"
	"nereid/app/console/inference"
	"nereid/app/console/rest"
	"nereid/app/console/tasks"
	"nereid/app/history"
	"nereid/app/requestlog"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/repo"
	"nereid/store"
)

// Handler serves the routes about load tests and tunings. Fields without a comment are needed.
type Handler struct {
	Tuner     Tuner              // nil: models cannot be tuned
	Inference inference.Server   // measured by load tests
	Requests  *requestlog.Keeper // nil: requests are not recorded
	Catalog   *catalog.Catalog
	Writer    *configs.Writer
	Store     *store.Store
	Tasks     *tasks.Group
	Recorder  *history.Recorder
	Log       *slog.Logger

	slot slot
}

// plan finds the models of a request and asks the tuner what a search would try.
func (h *Handler) plan(r *http.Request, req *api.StartTuning) (m Model, plan api.TuningPlan, err error) {
	if m, err = h.model(r.PathValue("name"), req.With); err != nil {
		return m, plan, err
	}
	if plan, err = h.Tuner.Plan(m, req); err != nil {
		err = rest.Errorf(api.CodeInvalid, "%v", err)
	}
	return m, plan, err
}

// model returns what the tuner needs to know about a model, and about those that are tuned with it.
func (h *Handler) model(name string, with []string) (Model, error) {
	found, err := h.Catalog.Find(name)
	if err != nil {
		return Model{}, err
	}
	if h.Tuner == nil {
		return Model{}, rest.Errorf(api.CodeUnsupported, "this server cannot tune models; use nereid tune")
	}
	if found.Folder == "" {
		return Model{}, rest.Errorf(api.CodeNotFound, "model %q has no folder in a repository", name)
	}
	if found.Copied {
		return Model{}, rest.Errorf(api.CodeUnsupported,
			"model %q is in %s; models are tuned in folders: copy it into one first", name, found.Repository)
	}
	cfg := completed(found.Status)
	if cfg == nil {
		return Model{}, rest.Errorf(api.CodeUnavailable,
			"nothing is known of the configuration of model %q; load it first", name)
	}
	m := Model{Name: filepath.Base(found.Folder), Repositories: []string{found.Repository}}
	m.Config = func(composing string) *inferencepb.ModelConfig {
		if composing == m.Name {
			return cfg
		}
		st, _ := h.Catalog.Engine.Model(h.Catalog.Composing(name, composing))
		return completed(st)
	}
	for _, other := range with {
		o, err := h.Catalog.Find(other)
		if err != nil {
			return Model{}, err
		}
		if o.Folder == "" || o.Copied {
			return Model{}, rest.Errorf(api.CodeUnsupported,
				"model %q has no folder of a repository; models are tuned in folders", other)
		}
		_, plain := repo.Split(other)
		m.With = append(m.With, plain)
	}
	for _, root := range h.Catalog.Repositories {
		if root != found.Repository && !catalog.Remote(root) {
			m.Repositories = append(m.Repositories, root)
		}
	}
	return m, nil
}

// completed returns the configuration in service, or the last one that was tried.
func completed(st lifecycle.ModelStatus) *inferencepb.ModelConfig {
	if running := catalog.Running(st); running != nil {
		return running
	}
	return st.Config
}

// List lists a model's tunings without their trials.
func (h *Handler) List(r *http.Request) (out api.Tunings, err error) {
	m, err := h.Catalog.Find(r.PathValue("name"))
	if err != nil {
		return out, err
	}
	list, err := h.Store.Tunings(r.Context(), m.Name)
	if err != nil {
		return out, err
	}
	out.Writable = true
	if err := m.CheckEditable(); err != nil {
		out.Writable, out.WhyNot = false, err.Error()
	}
	for _, t := range list {
		head := api.TuningHead{}
		if now, _, ok := h.slot.tuning(t.ID, 0); ok {
			head = now.Tuning.TuningHead
		} else if err := json.Unmarshal(t.Head, &head); err != nil {
			return out, err
		} else {
			markStopped(&head)
		}
		head.ID = t.ID
		out.Tunings = append(out.Tunings, head)
	}
	return out, nil
}

// Plan returns what a search would try.
func (h *Handler) Plan(r *http.Request, req *api.StartTuning) (api.TuningPlan, error) {
	_, plan, err := h.plan(r, req)
	return plan, err
}

// Start starts a tuning. It goes on when the page is closed.
func (h *Handler) Start(r *http.Request, req *api.StartTuning) (out api.Tuning, err error) {
	m, plan, err := h.plan(r, req)
	if err != nil {
		return out, err
	}
	name := r.PathValue("name")
	job, err := h.slot.claim(name, "tuned")
	if err != nil {
		return out, err
	}
	t := &record{Tuning: api.Tuning{Plan: plan, TuningHead: api.TuningHead{
		Model: name, State: api.TuningRunning, StartedMs: time.Now().UnixMilli(), Request: *req, Most: plan.Most}}}
	if found, err := h.Catalog.FindWithFolder(name); err == nil {
		t.Files = files(found)
	}
	row, err := t.row()
	if err == nil {
		t.Tuning.ID, err = h.Store.AddTuning(r.Context(), row)
	}
	if err != nil {
		h.slot.release()
		return out, err
	}
	out = t.Tuning
	h.slot.update(func() {
		job.tuning = t
		job.cancel = h.Tasks.Start(func(ctx context.Context) { h.run(ctx, m, t, req) })
	})
	return out, nil
}

// run searches, and stores each measurement, so that a crash of this process loses none.
func (h *Handler) run(ctx context.Context, m Model, running *record, req *api.StartTuning) {
	defer h.slot.release()
	id := running.Tuning.ID
	h.Log.Info("tuning a model", "model", m.Name)
	err := h.Tuner.Tune(ctx, m, req, func(e Event) {
		h.slot.update(func() { running.add(e) })
		if e.Trial != nil || e.Plan != nil {
			t, _, _ := h.slot.tuning(id, 0)
			h.keep(ctx, &t)
		}
	})
	t, _, _ := h.slot.tuning(id, 0)
	u := &t.Tuning
	u.State, u.EndedMs, u.Now = api.TuningDone, time.Now().UnixMilli(), nil
	switch {
	case ctx.Err() != nil:
		u.State = api.TuningStopped
	case err != nil:
		u.State, u.Reason = api.TuningFailed, err.Error()
	}
	h.Log.Info("a tuning has ended", "model", m.Name, "state", u.State, "measured", u.Measured, "reason", u.Reason)
	h.keep(ctx, &t)
	text := fmt.Sprintf("tuning: %s after %d measurements", u.State, u.Measured)
	h.note(history.Tuning, u.Model, text, u.Reason, u.EndedMs-u.StartedMs)
}

// note records the end of a load test or tuning in the history.
func (h *Handler) note(kind, model, text, reason string, tookMs int64) {
	if reason != "" {
		text += ": " + reason
	}
	h.Recorder.Event(history.Event{Kind: kind, Model: model, Text: text,
		Detail: history.Took(time.Duration(tookMs) * time.Millisecond)})
}

// keep stores a tuning as it is now. It logs an error.
func (h *Handler) keep(ctx context.Context, t *record) {
	row, err := t.row()
	if err == nil {
		err = h.Store.SetTuning(context.WithoutCancel(ctx), row)
	}
	if err != nil {
		h.Log.Error("a tuning is not kept", "model", t.Tuning.Model, "err", err)
	}
}

// find returns the tuning that a path names, if it is of that path's model, without the trials before from. stop is the
// function that stops it, nil if it does not run.
func (h *Handler) find(r *http.Request, from int) (t record, stop context.CancelFunc, err error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return t, nil, rest.Errorf(api.CodeNotFound, "%s is not the number of a tuning",
			rest.Quote(r.PathValue("id")))
	}
	var ok bool
	if t, stop, ok = h.slot.tuning(id, from); !ok {
		row, err := h.Store.Tuning(r.Context(), id)
		if err != nil {
			return t, nil, err
		}
		if err := json.Unmarshal(row.Body, &t); err != nil {
			return t, nil, err
		}
		t.Tuning.ID, t.Tuning.Model = row.ID, row.Model
		markStopped(&t.Tuning.TuningHead)
		t.Tuning.Now = nil
		t.skip(from)
	}
	if t.Tuning.Model != r.PathValue("name") {
		return t, nil, rest.Errorf(api.CodeNotFound, "tuning %d is of another model", id)
	}
	return t, stop, nil
}

// Get returns a tuning. The query's from is the first trial that is wanted.
func (h *Handler) Get(r *http.Request) (api.Tuning, error) {
	from, _ := strconv.Atoi(r.URL.Query().Get("from")) // none: all
	t, _, err := h.find(r, from)
	if err == nil {
		t.Tuning.Stale = h.stale(&t)
	}
	return t.Tuning, err
}

// Stop stops the tuning that runs. It ends soon after, with what was measured.
func (h *Handler) Stop(r *http.Request) (out api.Tuning, err error) {
	t, stop, err := h.find(r, 0)
	if err != nil {
		return out, err
	}
	if stop == nil {
		return out, rest.Errorf(api.CodeConflict, "tuning %d has ended", t.Tuning.ID)
	}
	stop()
	return t.Tuning, nil
}

// Delete removes a tuning that has ended.
func (h *Handler) Delete(r *http.Request) error {
	t, stop, err := h.find(r, 0)
	if err != nil {
		return err
	}
	if stop != nil {
		return rest.Errorf(api.CodeConflict, "tuning %d is under way; stop it first", t.Tuning.ID)
	}
	return h.Store.DeleteTuning(r.Context(), t.Tuning.ID)
}
