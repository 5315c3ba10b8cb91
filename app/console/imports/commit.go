package imports

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/code"
	"nereid/app/console/configs"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
	"nereid/app/durable"
	"nereid/app/history"
	"nereid/engine/repo"
	"nereid/store"
)

// Commit starts to copy an import into its repository and to load it.
func (h *Handler) Commit(r *http.Request, req *api.ImportCommit) (out api.Import, err error) {
	s, err := h.use(r.PathValue("id"))
	if err != nil {
		return out, err
	}
	defer s.mu.Unlock()
	if err := h.checkCommit(r.Context(), s, req); err != nil {
		return out, err
	}
	v := &s.view
	v.State, v.Step, v.Progress, v.Reason = api.ImportCommitting, "copy", 0, ""
	h.publish(s)
	h.Tasks.Start(func(ctx context.Context) { h.commit(ctx, s) })
	return *v, nil
}

// checkCommit refuses an import that is not ready. s.mu is held.
func (h *Handler) checkCommit(ctx context.Context, s *staged, req *api.ImportCommit) error {
	if h.Tasks.Context().Err() != nil {
		return rest.Errorf(api.CodeUnavailable, "the server is stopping")
	}
	if s.dir == "" {
		return rest.Errorf(api.CodeConflict, "the import is not analysed yet")
	}
	v := &s.view
	shown := v.Code
	if err := h.check(ctx, s); err != nil {
		return err
	}
	if err := repo.CheckName(v.Name); err != nil {
		return err
	}
	for _, f := range v.Faults {
		if f.Severity == api.SeverityError {
			return &rest.Error{Code: api.CodeConflict, Text: "the configuration has faults: " + f.Message,
				Faults: v.Faults}
		}
	}
	if v.Exists && !req.Replace {
		return rest.Errorf(api.CodeConflict,
			"a model %q is in the repository already; choose another name, or replace it", v.Name)
	}
	if len(v.Code) > 0 && !(req.ConsentCode && slices.Equal(shown, v.Code)) {
		h.publish(s)
		return code.Ask(v.Code)
	}
	if !folders.Writable(v.Repository) {
		return rest.Errorf(api.CodeForbidden, "the repository %s cannot be written by this server", v.Repository)
	}
	return nil
}

// commit installs an import and publishes how that ended.
func (h *Handler) commit(ctx context.Context, s *staged) {
	s.mu.Lock()
	root, from, config, agreed := s.view.Repository, s.dir, s.view.Config, s.view.Code
	name := h.Catalog.KeyIn(root, s.view.Name)
	s.mu.Unlock()
	start := time.Now()
	err := h.install(ctx, s, name, root, from, config, agreed)
	took := time.Since(start)
	if err != nil {
		h.Recorder.Event(history.Event{Kind: history.ImportFailed, Model: name, Text: strings.TrimSpace(err.Error())})
	} else {
		h.Recorder.Event(history.Event{Kind: history.Import, Model: name, Text: "imported into " + root,
			Detail: history.Took(took)})
	}
	h.Catalog.Changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &s.view
	v.Step, v.Progress, s.touched = "", -1, time.Now()
	if err != nil {
		v.State, v.Reason = api.ImportFailed, strings.TrimSpace(err.Error())
		h.publish(s)
		return
	}
	v.State, v.LoadMs = api.ImportLoaded, catalog.Milliseconds(took)
	if err := s.area.Remove(); err != nil {
		h.Log.Warn("the staged files of an import cannot be removed", "import", v.ID, "err", err)
	}
	h.publish(s)
}

// install copies the staged model beside its place in the repository, exchanges the two and loads the model. If that
// fails, it restores what was there.
func (h *Handler) install(ctx context.Context, s *staged, name, root, from, config string, agreed code.List) error {
	defer h.Catalog.Lock(name)()
	_, plain := repo.Split(name)
	place := filepath.Join(root, plain)
	old, err := catalog.ReadConfig(filepath.Join(place, repo.ConfigName))
	if err != nil {
		return err
	}
	part := folders.Hidden(root)
	defer func() {
		if err := os.RemoveAll(part); err != nil {
			h.Log.Warn("a folder of an import cannot be removed", "folder", part, "err", err)
		}
	}()
	if err := h.copyModel(ctx, s, from, part); err != nil {
		return fmt.Errorf("copy into the repository: %w", err)
	}
	var text *string
	if config != "" {
		text = &config
		if err := durable.Replace(filepath.Join(part, repo.ConfigName), []byte(config), 0o644); err != nil {
			return err
		}
	}
	// The question was about these files and this text: nothing else may run.
	if runs, err := code.Find(part, plain, config); err != nil {
		return err
	} else if !slices.Equal(runs, agreed) {
		return errors.Join(rest.Errorf(api.CodeConsent, "the staged files have changed since the question"),
			code.Ask(runs))
	}
	rev, err := h.Writer.Store.AddRevision(ctx, store.Revision{Model: name, Source: store.SourceImport, Before: old,
		After: text})
	if err != nil {
		return err
	}
	h.step(s, "load", -1)
	before := h.inService(name)
	replaced, err := h.swapAndLoad(ctx, part, place, name)
	if err != nil {
		h.Writer.SetOutcome(ctx, &rev, api.SaveFailed, strings.TrimSpace(err.Error()))
		if old != nil || text != nil {
			h.Writer.Note(ctx, store.Revision{Model: name, Source: store.SourceRestore, Restores: rev.ID, Before: text,
				After: old})
		}
		return err
	}
	h.Writer.SetOutcome(ctx, &rev, api.SaveLoaded, "")
	if after := h.inService(name); replaced && !slices.Equal(before, after) {
		h.Writer.Note(ctx, configs.VersionsRevision(name, before, after))
	}
	if replaced {
		if _, err := h.Trash.Put(name, part, place); err != nil {
			h.Log.Warn("a model that was replaced cannot be kept in the trash", "model", name, "err", err)
		}
	}
	return nil
}

func (h *Handler) inService(name string) []int64 {
	st, _ := h.Catalog.Engine.Model(name)
	return catalog.InService(st)
}

// swapAndLoad puts the folder part in the place of a model and loads it. An existing model is exchanged in one step, so
// that polling never finds the place empty. If the load fails, the exchange is undone. replaced reports that part is
// now the folder that was there before.
func (h *Handler) swapAndLoad(ctx context.Context, part, place, name string) (replaced bool, err error) {
	_, err = os.Lstat(place)
	switch {
	case err == nil:
		replaced, err = true, folders.Exchange(part, place)
	case errors.Is(err, fs.ErrNotExist):
		err = os.Rename(part, place)
	}
	if err != nil {
		return replaced, err
	}
	err = h.Engine.Reload(ctx, name)
	switch {
	case err == nil:
		return replaced, nil
	case !replaced:
		h.Engine.Remove(name)
		return false, errors.Join(err, os.RemoveAll(place))
	}
	if undo := folders.Exchange(part, place); undo != nil {
		return true, errors.Join(err, undo)
	}
	// The engine still serves the old model. The reload only shows it that the old files are back.
	if err := h.Engine.Reload(context.WithoutCancel(ctx), name); err != nil {
		h.Log.Warn("a model does not load again after a failed replacement", "model", name, "err", err)
	}
	return true, err
}

// step publishes how far a commit is.
func (h *Handler) step(s *staged, step string, progress float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.Step, s.view.Progress = step, progress
	h.publish(s)
}
