package configs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/rest"
	"nereid/app/durable"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/lifecycle"
	"nereid/store"
)

// OnlyIfLoads is the reason of a revision that SaveIfLoads is at work on.
const OnlyIfLoads = "only if it loads"

// Writer changes the configuration files of models, and records each change as a revision. The caller of a method that
// names a model holds the model's lock.
type Writer struct {
	Catalog  *catalog.Catalog
	Engine   *engine.Engine
	Store    *store.Store
	Recorder *history.Recorder
	Log      *slog.Logger
}

// Sync returns the newest revision of a model's configuration file, a zero one if there is none. If the file is not
// what that revision left, Sync first stores a revision with the source "disk".
func (w *Writer) Sync(ctx context.Context, m catalog.Model) (store.Revision, error) {
	last, err := w.Store.FileRevision(ctx, m.Name)
	if errors.Is(err, store.ErrNotFound) {
		return store.Revision{}, nil
	}
	if err != nil || m.Folder == "" || equalText(last.After, m.Text) {
		return last, err
	}
	if last.Outcome == "" { // the model's lock is held, so nobody is about to write it
		w.SetOutcome(ctx, &last, api.SaveFailed, "the server ended before the change was in place")
	}
	return w.Store.AddRevision(ctx, store.Revision{
		Model: m.Name, Source: store.SourceDisk, Before: last.After, After: m.Text, Outcome: string(api.SaveSaved),
	})
}

func equalText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// Note stores a revision of a change that is already made. It logs an error.
func (w *Writer) Note(ctx context.Context, rev store.Revision) {
	rev.Outcome = cmp.Or(rev.Outcome, string(api.SaveSaved))
	if _, err := w.Store.AddRevision(context.WithoutCancel(ctx), rev); err != nil {
		w.Log.Warn("a change of a model is not recorded", "model", rev.Model, "err", err)
	}
}

// SetOutcome stores what became of a revision. It logs an error.
func (w *Writer) SetOutcome(ctx context.Context, rev *store.Revision, o api.SaveOutcome, reason string) {
	rev.Outcome, rev.Reason = string(o), reason
	if err := w.Store.SetRevisionOutcome(context.WithoutCancel(ctx), rev.ID, rev.Outcome, rev.Reason); err != nil {
		w.Log.Warn("the outcome of a configuration change is not stored",
			"model", rev.Model, "revision", rev.ID, "err", err)
	}
}

// editable finds a model whose configuration is about to change. It refuses if the file changed since revision base.
func (w *Writer) editable(ctx context.Context, name string, base int64) (catalog.Model, error) {
	m, err := w.Catalog.Find(name)
	if err != nil {
		return m, err
	}
	if err := m.CheckEditable(); err != nil {
		return m, err
	}
	head, err := w.Sync(ctx, m)
	if err != nil {
		return m, err
	}
	if head.ID != base {
		return m, rest.Errorf(api.CodeConflict, "the configuration of %q was changed meanwhile "+
			"(it is at revision %d, the edit began from %d); look at the new text, then save again",
			name, head.ID, base)
	}
	return m, nil
}

// Save stores a revision, replaces the configuration file, and reloads the model if it should run. It goes on when ctx
// is cancelled.
func (w *Writer) Save(ctx context.Context, m catalog.Model, rev store.Revision) (out api.SaveResult, err error) {
	ctx = context.WithoutCancel(ctx)
	if rev, err = w.replace(ctx, m, rev); err != nil {
		return out, err
	}
	out = w.reload(ctx, m)
	w.conclude(ctx, rev, &out)
	return out, nil
}

// SaveIfLoads is Save, but if the load fails, it puts the file back as it was. That is a second revision. If the
// process ends before the load has, the next start puts the file back; see Settle.
func (w *Writer) SaveIfLoads(ctx context.Context, m catalog.Model, rev store.Revision) (out api.SaveResult, err error) {
	ctx = context.WithoutCancel(ctx)
	rev.Reason = OnlyIfLoads
	if rev, err = w.replace(ctx, m, rev); err != nil {
		return out, err
	}
	out = w.reload(ctx, m)
	if out.Outcome != api.SaveFailed {
		w.conclude(ctx, rev, &out)
		return out, nil
	}
	// The file first: while the outcome is not known, the next start would do this.
	err = writeFile(m.ConfigPath, m.Text)
	w.conclude(ctx, rev, &out)
	if err != nil {
		return out, err
	}
	back, err := w.Store.AddRevision(ctx, store.Revision{Model: m.Name, Source: store.SourceRestore, Restores: rev.ID,
		Before: rev.After, After: m.Text})
	if err != nil {
		return out, err
	}
	restored := w.reload(ctx, m)
	w.conclude(ctx, back, &restored)
	out.Outcome, out.Revision = api.SaveUndone, restored.Revision
	out.KeepsServing = restored.KeepsServing || restored.Outcome == api.SaveLoaded
	return out, nil
}

// replace stores a revision and then replaces the configuration file.
func (w *Writer) replace(ctx context.Context, m catalog.Model, rev store.Revision) (store.Revision, error) {
	rev.Model, rev.Before = m.Name, m.Text
	rev, err := w.Store.AddRevision(ctx, rev)
	if err != nil {
		return rev, err
	}
	if err := writeFile(m.ConfigPath, rev.After); err != nil {
		w.SetOutcome(ctx, &rev, api.SaveFailed, "the file was not written: "+err.Error())
		return rev, err
	}
	return rev, nil
}

// reload reloads a model whose configuration file was replaced, if it should run.
func (w *Writer) reload(ctx context.Context, m catalog.Model) api.SaveResult {
	if !w.shouldRun(m.Status) {
		return api.SaveResult{Outcome: api.SaveSaved}
	}
	return w.load(m.Name, func() error { return w.Engine.Reload(ctx, m.Name) })
}

// conclude stores and publishes how a save ended, and adds its revision to out.
func (w *Writer) conclude(ctx context.Context, rev store.Revision, out *api.SaveResult) {
	w.SetOutcome(ctx, &rev, out.Outcome, out.Reason)
	w.recordSave(rev, *out)
	w.Catalog.Changed()
	out.Revision = apiRevision(rev)
}

// load runs a load of a model and returns how it ended.
func (w *Writer) load(name string, load func() error) api.SaveResult {
	start := time.Now()
	err := load()
	out := api.SaveResult{Outcome: api.SaveLoaded, LoadMs: catalog.Milliseconds(time.Since(start))}
	if err != nil {
		now, _ := w.Engine.Model(name)
		out.Outcome, out.Reason = api.SaveFailed, strings.TrimSpace(err.Error())
		out.KeepsServing = catalog.Running(now) != nil
	}
	return out
}

// shouldRun reports whether a model should be in service. A model that was unloaded on purpose should not.
func (w *Writer) shouldRun(st lifecycle.ModelStatus) bool {
	for _, v := range st.Versions {
		if v.State != lifecycle.Unavailable || v.Reason != "unloaded" {
			return true
		}
	}
	return st.Err != nil || len(st.Versions) == 0 && w.Engine.Mode() != engine.ModeExplicit
}

func (w *Writer) recordSave(rev store.Revision, out api.SaveResult) {
	e := history.Event{Kind: history.ConfigSaved, Model: rev.Model, Text: "configuration saved",
		Detail: history.Detail{Revision: rev.ID, DurationMs: out.LoadMs}}
	if rev.Source == store.SourceTune {
		e.Text = "configuration of a tuning saved"
	}
	if rev.Restores != 0 {
		e.Kind, e.Text = history.ConfigRestored, fmt.Sprintf("configuration of revision %d restored", rev.Restores)
	}
	if out.Reason != "" {
		e.Text += "; it does not load: " + out.Reason
	}
	w.Recorder.Event(e)
}

// writeFile replaces config.pbtxt, or removes it for nil.
func writeFile(path string, text *string) error {
	if text == nil {
		return durable.Remove(path)
	}
	return durable.Replace(path, []byte(*text), 0o644)
}
