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
	"nereid/app/console/imports/staging"
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
			return &rest.Error{Code: api.CodeConflict, Text: "the configuration has faults: " + f.Text(),
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
	in := incoming{name: h.Catalog.KeyIn(s.view.Repository, s.view.Name), root: s.view.Repository, from: s.dir,
		config: s.view.Config, agreed: s.view.Code, replaces: s.view.Exists}
	s.mu.Unlock()
	start := time.Now()
	err := h.install(ctx, s, in)
	took := time.Since(start)
	if err != nil {
		h.Recorder.Event(history.Event{Kind: history.ImportFailed, Model: in.name,
			Text: strings.TrimSpace(err.Error())})
	} else {
		h.Recorder.Event(history.Event{Kind: history.Import, Model: in.name, Text: "imported into " + in.root,
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

// incoming is a staged model that is to be installed.
type incoming struct {
	name   string // the engine's
	root   string // the repository
	from   string // the staged folder
	config string // the text for config.pbtxt; "": the folder has what it needs
	agreed code.List

	replaces bool // a model was there at the commit, and the user agreed to replace it
}

// install copies the staged model beside its place in the repository, exchanges the two and loads the model. If that
// fails, it restores what was there. What it promises after a crash is at cleanUp.
func (h *Handler) install(ctx context.Context, s *staged, in incoming) error {
	defer h.Catalog.Lock(in.name)()
	_, plain := repo.Split(in.name)
	place := filepath.Join(in.root, plain)
	old, err := catalog.ReadConfig(filepath.Join(place, repo.ConfigName))
	if err != nil {
		return err
	}
	part := folders.Hidden(in.root)
	if err := os.Mkdir(part, 0o755); err != nil {
		return err
	}
	keep := false
	defer func() {
		if keep {
			return
		}
		if err := os.RemoveAll(part); err != nil {
			h.Log.Warn("a folder of an import cannot be removed", "folder", part, "err", err)
		}
	}()
	j, err := writeJournal(part, place)
	if err != nil {
		return err
	}
	defer j.close()
	if err := h.prepare(ctx, s, in, part, plain); err != nil {
		return err
	}
	var text *string
	if in.config != "" {
		text = &in.config
	}
	rev, err := h.Writer.Store.AddRevision(ctx, store.Revision{Model: in.name, Source: store.SourceImport, Before: old,
		After: text})
	if err != nil {
		return err
	}
	h.step(s, "load", -1)
	before := h.inService(in.name)
	replaced, err := h.swapAndLoad(ctx, j, part, place, in)
	if err != nil {
		keep = replaced // it could not be put back: the next start does that, or moves it to the trash
		h.Writer.SetOutcome(ctx, &rev, api.SaveFailed, strings.TrimSpace(err.Error()))
		if old != nil || text != nil {
			h.Writer.Note(ctx, store.Revision{Model: in.name, Source: store.SourceRestore, Restores: rev.ID,
				Before: text, After: old})
		}
		return err
	}
	h.Writer.SetOutcome(ctx, &rev, api.SaveLoaded, "")
	if after := h.inService(in.name); replaced && !slices.Equal(before, after) {
		h.Writer.Note(ctx, configs.VersionsRevision(in.name, before, after))
	}
	if replaced {
		keep = !h.discard(in.name, part, place)
	}
	if !keep {
		if err := durable.Remove(filepath.Join(place, placedName)); err != nil {
			h.Log.Warn("the journal of an import cannot be removed", "model", in.name, "err", err)
		}
	}
	return nil
}

// prepare makes the model folder part of a staged model, complete and on the disk.
func (h *Handler) prepare(ctx context.Context, s *staged, in incoming, part, plain string) error {
	if err := h.copyModel(ctx, s, in.from, part); err != nil {
		return fmt.Errorf("copy into the repository: %w", err)
	}
	if in.config != "" {
		if err := durable.Replace(filepath.Join(part, repo.ConfigName), []byte(in.config), 0o644); err != nil {
			return err
		}
	}
	if err := staging.RenameConfigs(part, plain); err != nil {
		return err
	}
	// The question was about these files and this text: nothing else may run.
	runs, err := code.Find(part, plain, in.config)
	if err != nil {
		return err
	}
	if !slices.Equal(runs, in.agreed) {
		return errors.Join(rest.Errorf(api.CodeConsent, "the staged files have changed since the question"),
			code.Ask(runs))
	}
	return durable.SyncTree(part)
}

// discard moves a model that was replaced to the trash, and reports whether it did.
func (h *Handler) discard(name, folder, place string) bool {
	_, err := h.Trash.Put(name, folder, place)
	if err != nil {
		h.Log.Warn("a model that was replaced cannot be moved to the trash; the next start tries again",
			"model", name, "folder", folder, "err", err)
	}
	return err == nil
}

func (h *Handler) inService(name string) []int64 {
	st, _ := h.Catalog.Engine.Model(name)
	return catalog.InService(st)
}

// swapAndLoad puts the folder part in the place of a model and loads it. A model that the import replaces is exchanged
// in one step, so that polling never finds the place empty. A folder that is there for another reason stays: somebody
// has copied it there since the commit. If the load fails, the exchange is undone. replaced reports that part is now
// the folder that was there before; together with an error, that it could not be put back.
func (h *Handler) swapAndLoad(ctx context.Context, j *journal, part, place string, in incoming) (replaced bool,
	err error) {
	if in.replaces {
		err = folders.Exchange(part, place)
		replaced = err == nil
	}
	if !in.replaces || errors.Is(err, fs.ErrNotExist) {
		err = folders.Place(part, place)
	}
	if errors.Is(err, fs.ErrExist) {
		err = rest.Errorf(api.CodeConflict, "since the import began, %s was put there by somebody else, and stays; "+
			"choose another name, or import again and replace it", place)
	}
	if err != nil {
		return false, err
	}
	if err = durable.SyncFolder(filepath.Dir(place)); err == nil {
		err = h.Engine.Reload(ctx, in.name)
	}
	if err == nil {
		err = j.placed(place)
	}
	switch {
	case err == nil:
		return replaced, nil
	case !replaced:
		h.Engine.Remove(in.name)
		return false, errors.Join(err, os.RemoveAll(place))
	}
	undo := folders.Exchange(part, place)
	if undo == nil {
		undo = durable.SyncFolder(filepath.Dir(place))
	}
	if undo != nil {
		return true, errors.Join(err, undo)
	}
	// The engine still serves the old model. The reload only shows it that the old files are back.
	if err := h.Engine.Reload(context.WithoutCancel(ctx), in.name); err != nil {
		h.Log.Warn("a model does not load again after a failed replacement", "model", in.name, "err", err)
	}
	return false, err
}

// step publishes how far a commit is.
func (h *Handler) step(s *staged, step string, progress float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.Step, s.view.Progress = step, progress
	h.publish(s)
}
