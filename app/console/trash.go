package console

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/staging"
	"nereid/app/durable"
)

// trash keeps removed model folders: <dir>/<id>/item.json and <dir>/<id>/model/.
type trash struct {
	dir string
}

func newID() string { return rand.Text()[:16] }

// put moves a model's folder to the trash. from is where it goes back to.
func (t *trash) put(model, folder, from string) (api.Trashed, error) {
	item := api.Trashed{ID: newID(), Model: model, From: from, TMs: time.Now().UnixMilli()}
	list, err := staging.ListFiles(folder)
	if err != nil {
		return item, err
	}
	for _, f := range list {
		item.SizeBytes += f.Size
	}
	if err := makeFolder(t.dir); err != nil {
		return item, err
	}
	at := filepath.Join(t.dir, item.ID)
	if err := os.Mkdir(at, 0o700); err != nil {
		return item, err
	}
	b, err := json.Marshal(item)
	if err != nil {
		return item, err
	}
	if err := durable.Replace(filepath.Join(at, "item.json"), b, 0o600); err != nil {
		return item, errors.Join(err, os.RemoveAll(at))
	}
	if err := moveFolder(folder, filepath.Join(at, "model")); err != nil {
		return item, errors.Join(err, os.RemoveAll(at))
	}
	return item, nil
}

// list answers what is in the trash, the newest first. What cannot be read is left out.
func (t *trash) list() ([]api.Trashed, error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []api.Trashed
	for _, e := range entries {
		if item, err := t.get(e.Name()); err == nil {
			out = append(out, item)
		}
	}
	slices.SortFunc(out, func(a, b api.Trashed) int { return int(b.TMs - a.TMs) })
	return out, nil
}

func (t *trash) get(id string) (api.Trashed, error) {
	var item api.Trashed
	missing := fail(api.CodeNotFound, "there is no %s in the trash", quote(id))
	if id == "" || !filepath.IsLocal(id) || filepath.Base(id) != id {
		return item, missing
	}
	b, err := os.ReadFile(filepath.Join(t.dir, id, "item.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return item, missing
	}
	if err == nil {
		err = json.Unmarshal(b, &item)
	}
	item.ID = id
	return item, err
}

// restore moves a folder back to where it was.
func (t *trash) restore(item api.Trashed) error {
	if _, err := os.Lstat(item.From); err == nil {
		return fail(api.CodeConflict, "%s exists again; remove or rename that model first", item.From)
	}
	if err := os.MkdirAll(filepath.Dir(item.From), 0o755); err != nil {
		return err
	}
	if err := moveFolder(filepath.Join(t.dir, item.ID, "model"), item.From); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(t.dir, item.ID))
}

// moveFolder renames a folder; between file systems it copies it to a hidden name beside the target first, so that the
// target is there whole or not at all.
func moveFolder(from, to string) error {
	err := os.Rename(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	part := filepath.Join(filepath.Dir(to), ".nereid-"+newID())
	if err := copyFolder(from, part); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	if err := os.Rename(part, to); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return os.RemoveAll(from)
}

// copyFolder copies regular files, folders and links. Anything else in it is an error.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch d.Type() {
		case fs.ModeDir:
			return os.Mkdir(at, 0o755)
		case fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		case 0:
			return durable.Copy(p, at)
		}
		return fail(api.CodeInvalid, "%s is neither a file nor a folder", p)
	})
}

// exchangeByRenames swaps two folders where that cannot be done in one step.
func exchangeByRenames(a, b string) error {
	aside := filepath.Join(filepath.Dir(b), ".nereid-"+newID())
	if err := os.Rename(b, aside); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return errors.Join(err, os.Rename(aside, b))
	}
	return os.Rename(aside, a)
}
