package models

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
	"nereid/app/durable"
)

// Trash keeps removed model folders, each as <dir>/<id>/item.json and <dir>/<id>/model/.
// The folder is made when it is needed.
type Trash struct{ Dir string }

// stored is what item.json has.
type stored struct {
	api.Trashed
	Moved string `json:"moved"` // the folder that was moved
	// Restoring says that the model is being moved back. If the process ends meanwhile, it may be in both places.
	Restoring bool `json:"restoring,omitempty"`
}

// Put moves a model's folder to the trash. from is the path to which it can be restored.
//
// A folder elsewhere than at from has a name that is used once (folders.Hidden). If the trash has it already, an
// earlier process ended before it could remove the original. Then this only removes it.
func (t *Trash) Put(model, folder, from string) (api.Trashed, error) {
	if folder != from {
		if copied, err := t.copyOf(folder); err != nil || copied.ID != "" {
			return copied, err
		}
	}
	item := stored{Trashed: api.Trashed{ID: folders.NewID(), Model: model, From: from, TMs: time.Now().UnixMilli()},
		Moved: folder}
	list, err := folders.List(folder)
	if err != nil {
		return item.Trashed, err
	}
	for _, f := range list {
		item.SizeBytes += f.SizeBytes
	}
	at := filepath.Join(t.Dir, item.ID)
	if err := os.MkdirAll(at, 0o700); err != nil {
		return item.Trashed, err
	}
	if err = t.write(item); err == nil {
		err = durable.SyncFolder(t.Dir)
	}
	if err == nil {
		err = folders.Move(folder, filepath.Join(at, "model"))
	}
	if err != nil {
		if _, there := os.Lstat(filepath.Join(at, "model")); there != nil {
			err = errors.Join(err, os.RemoveAll(at))
		} // else it is complete, and may be the only one
		return item.Trashed, err
	}
	return item.Trashed, nil
}

// copyOf looks for a complete copy of a folder in the trash, and removes the folder if there is one.
func (t *Trash) copyOf(folder string) (api.Trashed, error) {
	entries, err := os.ReadDir(t.Dir)
	if err != nil {
		return api.Trashed{}, nil // it may not exist yet
	}
	for _, e := range entries {
		item, err := t.get(e.Name())
		if err != nil || item.Moved != folder {
			continue
		}
		if _, err := os.Lstat(filepath.Join(t.Dir, item.ID, "model")); err == nil {
			return item.Trashed, folders.Remove(folder)
		}
	}
	return api.Trashed{}, nil
}

// RemoveLeft removes what a process left that ended while it moved a model: an item without its model, which is where
// it was, and an item that was restored to another file system.
func (t *Trash) RemoveLeft(log *slog.Logger) {
	entries, _ := os.ReadDir(t.Dir) // it may not exist yet
	for _, e := range entries {
		at := filepath.Join(t.Dir, e.Name())
		_, err := os.Lstat(filepath.Join(at, "model"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = os.RemoveAll(at)
		case err == nil && t.restored(e.Name()):
			err = t.remove(e.Name())
		default:
			continue
		}
		if err != nil {
			log.Warn("a folder in the trash that is needed no more cannot be removed", "folder", at, "err", err)
		}
	}
}

// restored reports whether an item is also where it was restored to, with the same files.
func (t *Trash) restored(id string) bool {
	item, err := t.get(id)
	if err != nil || !item.Restoring {
		return false
	}
	here, err := folders.List(filepath.Join(t.Dir, id, "model"))
	there, terr := folders.List(item.From)
	return err == nil && terr == nil && slices.Equal(here, there)
}

// remove removes an item and its model. After a crash, RemoveLeft finishes it.
func (t *Trash) remove(id string) error {
	at := filepath.Join(t.Dir, id)
	if err := folders.Remove(filepath.Join(at, "model")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(at)
}

// list returns what is in the trash, the newest first. It leaves out what cannot be read.
func (t *Trash) list() ([]api.Trashed, error) {
	entries, err := os.ReadDir(t.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []api.Trashed
	for _, e := range entries {
		if item, err := t.get(e.Name()); err == nil {
			out = append(out, item.Trashed)
		}
	}
	slices.SortFunc(out, func(a, b api.Trashed) int { return cmp.Compare(b.TMs, a.TMs) })
	return out, nil
}

func (t *Trash) get(id string) (stored, error) {
	var item stored
	missing := rest.Errorf(api.CodeNotFound, "there is no %s in the trash", rest.Quote(id))
	if id == "" || !filepath.IsLocal(id) || filepath.Base(id) != id {
		return item, missing
	}
	b, err := os.ReadFile(filepath.Join(t.Dir, id, "item.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return item, missing
	}
	if err == nil {
		err = json.Unmarshal(b, &item)
	}
	item.ID = id
	return item, err
}

func (t *Trash) write(item stored) error {
	b, err := json.Marshal(item)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(t.Dir, item.ID, "item.json"), b, 0o600)
}

// restore moves a folder back to where it was.
func (t *Trash) restore(item stored) error {
	if _, err := os.Lstat(item.From); err == nil {
		return rest.Errorf(api.CodeConflict, "%s exists again; remove or rename that model first", item.From)
	}
	if err := os.MkdirAll(filepath.Dir(item.From), 0o755); err != nil {
		return err
	}
	item.Restoring = true
	_ = t.write(item) // fails on a full disk; then a crash may leave a copy in the trash, as it is now
	if err := folders.Move(filepath.Join(t.Dir, item.ID, "model"), item.From); err != nil {
		return err
	}
	return t.remove(item.ID)
}
