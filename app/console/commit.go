package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/durable"
	"nereid/app/history"
	"nereid/engine/repo"
	"nereid/store"
)

// postCommit starts the copy of an import into its repository, and its load.
func (c *Console) postCommit(w http.ResponseWriter, r *http.Request) error {
	var req api.ImportCommit
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	s, err := c.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := c.mayCommit(r.Context(), s, req); err != nil {
		return err
	}
	v := &s.view
	v.State, v.Step, v.Progress, v.Reason = api.ImportCommitting, "copy", 0, ""
	c.publishImport(s)
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		c.commit(s)
	}()
	writeJSON(w, http.StatusAccepted, *v)
	return nil
}

// mayCommit refuses an import that is not ready. s.mu is held.
func (c *Console) mayCommit(ctx context.Context, s *staged, req api.ImportCommit) error {
	if c.ctx.Err() != nil {
		return fail(api.CodeUnavailable, "the server is stopping")
	}
	if s.dir == "" {
		return fail(api.CodeConflict, "the import is not analysed yet")
	}
	c.check(ctx, s)
	v := &s.view
	if err := repo.CheckName(v.Name); err != nil {
		return err
	}
	for _, f := range v.Faults {
		if f.Severity == api.SeverityError {
			return &apiError{code: api.CodeConflict, text: "the configuration has faults: " + f.Message, faults: v.Faults}
		}
	}
	if v.Exists && !req.Replace {
		return fail(api.CodeConflict, "a model %q is in the repository already; choose another name, or replace it", v.Name)
	}
	if len(v.Code) > 0 && !req.ConsentCode {
		return fail(api.CodeConsent, "%s (%s) runs as code on this machine when the model is loaded; agree to that, or do not import it",
			v.Code[0].Path, v.Code[0].Why)
	}
	if !writable(v.Repository) {
		return fail(api.CodeForbidden, "the repository %s cannot be written by this server", v.Repository)
	}
	return nil
}

// commit copies the staged model beside its place, swaps it in, loads it and, if that fails, puts back what was there.
func (c *Console) commit(s *staged) {
	s.mu.Lock()
	root, from, config := s.view.Repository, s.dir, s.view.Config
	name := repo.Key(c.namespace(root), s.view.Name)
	s.mu.Unlock()
	start := time.Now()
	err := c.install(s, name, root, from, config)
	took := time.Since(start)
	if err != nil {
		c.o.Recorder.Event(history.Event{Kind: history.ImportFailed, Model: name, Text: strings.TrimSpace(err.Error())})
	} else {
		c.o.Recorder.Event(history.Event{Kind: history.Import, Model: name, Text: "imported into " + root, Detail: history.Took(took)})
	}
	c.ModelsChanged()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &s.view
	v.Step, v.Progress, s.touched = "", -1, time.Now()
	if err != nil {
		v.State, v.Reason = api.ImportFailed, strings.TrimSpace(err.Error())
		c.publishImport(s)
		return
	}
	v.State, v.LoadMs = api.ImportLoaded, ms(took)
	if err := s.area.Remove(); err != nil {
		c.log.Warn("the staged files of an import cannot be removed", "import", v.ID, "err", err)
	}
	c.publishImport(s)
}

func (c *Console) install(s *staged, name, root, from, config string) error {
	unlock := c.locks.lock(name)
	defer unlock()
	ctx := c.ctx
	_, plain := repo.Split(name)
	place := filepath.Join(root, plain)
	old, err := readText(filepath.Join(place, repo.ConfigName))
	if err != nil {
		return err
	}
	part := filepath.Join(root, ".nereid-"+newID()) // hidden: not a model to the engine
	defer func() {
		if err := os.RemoveAll(part); err != nil {
			c.log.Warn("a folder of an import cannot be removed", "folder", part, "err", err)
		}
	}()
	if err := c.copyModel(s, from, part); err != nil {
		return fmt.Errorf("copy into the repository: %w", err)
	}
	var text *string
	if config != "" {
		text = &config
		if err := durable.Replace(filepath.Join(part, repo.ConfigName), []byte(config), 0o644); err != nil {
			return err
		}
	}
	rev, err := c.o.Store.AddRevision(ctx, store.Revision{Model: name, Source: "import", Before: old, After: text})
	if err != nil {
		return err
	}
	c.step(s, "load", -1)
	before := c.inService(name)
	replaced, err := swapIn(part, place)
	if err == nil {
		if err = c.o.Engine.Reload(ctx, name); err != nil {
			err = errors.Join(err, c.putBack(part, place, name, replaced))
		}
	}
	if err != nil {
		c.outcome(context.WithoutCancel(ctx), &rev, api.SaveFailed, strings.TrimSpace(err.Error()))
		if old != nil || text != nil { // the text is back to what it was
			back := store.Revision{Model: name, Source: "restore", Restores: rev.ID, Before: text, After: old, Outcome: string(api.SaveSaved)}
			if _, e := c.o.Store.AddRevision(context.WithoutCancel(ctx), back); e != nil {
				c.log.Warn("the return to the configuration before an import is not recorded", "model", name, "err", e)
			}
		}
		return err
	}
	c.outcome(ctx, &rev, api.SaveLoaded, "")
	if after := c.inService(name); replaced && !slices.Equal(before, after) {
		c.note(ctx, VersionsRevision(name, before, after))
	}
	if replaced {
		if _, err := c.trash.put(name, part, place); err != nil {
			c.log.Warn("a model that was replaced cannot be kept in the trash", "model", name, "err", err)
		}
	}
	return nil
}

// swapIn puts the folder part in the place of a model, at once: there is no moment without a model, which polling could
// take for its removal. replaced says that part now is the folder that was there before.
func swapIn(part, place string) (replaced bool, err error) {
	_, err = os.Lstat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, os.Rename(part, place)
	case err != nil:
		return false, err
	}
	return true, exchange(part, place)
}

// putBack undoes swapIn after a load that failed.
func (c *Console) putBack(part, place, name string, replaced bool) error {
	if !replaced {
		c.o.Engine.Remove(name)
		return os.RemoveAll(place)
	}
	if err := exchange(part, place); err != nil {
		return err
	}
	// The engine still serves the old one; it only has to learn that its files are back.
	if err := c.o.Engine.Reload(context.WithoutCancel(c.ctx), name); err != nil {
		c.log.Warn("a model does not load again after a failed replacement", "model", name, "err", err)
	}
	return nil
}

func (c *Console) step(s *staged, step string, progress float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.Step, s.view.Progress = step, progress
	c.publishImport(s)
}

// copyModel copies a folder of regular files. It ends early when the console closes. Files are linked where that can be
// done: the staged ones are never changed in place.
func (c *Console) copyModel(s *staged, from, to string) error {
	var total, done int64
	if err := walkFiles(from, func(_ string, info fs.FileInfo) error {
		total += info.Size()
		return nil
	}); err != nil {
		return err
	}
	if free, ok := freeBytes(filepath.Dir(to)); ok && total > 0 && uint64(total) > free && !sameDevice(from, filepath.Dir(to)) {
		return fail(api.CodeTooLarge, "the model has %d bytes, but only %d are free in %s", total, free, filepath.Dir(to))
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	// Version folders may be empty: make them all first.
	if err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || p == from {
			return err
		}
		return os.Mkdir(filepath.Join(to, strings.TrimPrefix(p, from)), 0o755)
	}); err != nil {
		return err
	}
	last := time.Now()
	err := walkFiles(from, func(p string, info fs.FileInfo) error {
		at := filepath.Join(to, strings.TrimPrefix(p, from))
		if os.Link(p, at) == nil {
			done += info.Size()
			return nil
		}
		return c.copyWatched(p, at, func(n int) {
			done += int64(n)
			if time.Since(last) > 200*time.Millisecond {
				last = time.Now()
				c.step(s, "copy", float64(done)/float64(max(total, 1)))
			}
		})
	})
	return errors.Join(err, durable.SyncFolder(to))
}

func walkFiles(root string, f func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return f(p, info)
	})
}

func (c *Console) copyWatched(from, to string, wrote func(int)) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for err == nil {
		var n int
		if n, err = in.Read(buf); n > 0 {
			if _, e := out.Write(buf[:n]); e != nil {
				err = e
			}
			wrote(n)
		}
		if c.ctx.Err() != nil {
			err = errors.Join(err, fail(api.CodeUnavailable, "the server is stopping"))
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, out.Sync(), out.Close())
}
