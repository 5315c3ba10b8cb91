package imports

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/folders"
	"nereid/app/durable"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/store"
)

// cleanUp finishes or undoes the imports that were under way when an earlier process ended, before any model is loaded.
//
// An import that was not in service yet is undone, because it may have crashed the server: the model that it
// replaced is back, and the import is in the trash, or removed if it was not complete. What a finished import replaced
// goes to the trash. Files that another server is writing in the same repository are left alone. Faults are logged.
func (h *Handler) cleanUp() {
	h.Trash.RemoveLeft(h.Log)
	for _, root := range h.Catalog.Repositories {
		if catalog.Remote(root) || !folders.Writable(root) {
			continue
		}
		r := recovery{h: h, root: root, hidden: map[string]bool{}}
		if err := r.run(); err != nil {
			h.Log.Warn("what an import left in a repository cannot be cleaned up", "repository", root, "err", err)
		}
	}
}

// hiddenName matches the names that folders.Hidden makes.
var hiddenName = regexp.MustCompile(`^\.nereid-[A-Z2-7]{16}(-old|-part)?$`)

// recovery is the clean-up of one repository.
type recovery struct {
	h      *Handler
	root   string
	hidden map[string]bool // hidden folders that nothing explains yet
}

func (r *recovery) run() error {
	entries, err := os.ReadDir(r.root)
	if err != nil {
		return err
	}
	var models, hidden []string
	for _, e := range entries {
		switch {
		case !e.IsDir():
		case hiddenName.MatchString(e.Name()):
			hidden = append(hidden, e.Name())
			r.hidden[e.Name()] = true
		case !repo.Ignored(e.Name()):
			models = append(models, e.Name())
		}
	}
	var errs []error
	for _, name := range models {
		errs = append(errs, durable.RemoveLeft(r.at(name)), r.placed(name), r.unfinished(name))
	}
	for _, name := range hidden {
		errs = append(errs, r.incomplete(name))
	}
	for _, name := range slices.Sorted(maps.Keys(r.hidden)) {
		errs = append(errs, r.orphan(name))
	}
	return errors.Join(errs...)
}

func (r *recovery) at(name string) string { return filepath.Join(r.root, name) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// claim takes the folder that an import has exchanged or would exchange, "" if there is none.
func (r *recovery) claim(j *journal) string {
	found := ""
	for _, name := range []string{j.Hidden, j.Hidden + folders.OldName} {
		if r.hidden[name] {
			delete(r.hidden, name)
			found = name
		}
	}
	return found
}

// open returns the journal with this file name in a model folder, which the caller closes, and what it claims. The
// journal is nil if there is none, or if another server is at work on the import.
func (r *recovery) open(name, file string) (j *journal, old string, err error) {
	j, err = readJournal(r.at(name), file)
	if j == nil {
		return nil, "", err
	}
	old = r.claim(j)
	if err != nil { // errBusy
		j.close()
		return nil, "", nil
	}
	return j, old, nil
}

// placed finishes an import that is in service: what it replaced goes to the trash.
func (r *recovery) placed(name string) error {
	j, old, err := r.open(name, placedName)
	if j == nil {
		return err
	}
	defer j.close()
	r.settle(name, api.SaveLoaded, "")
	if old != "" {
		if err := r.discard(old, name); err != nil {
			return err
		}
	}
	return durable.Remove(filepath.Join(r.at(name), placedName))
}

// unfinished undoes an import whose folder is in its place and was not in service.
func (r *recovery) unfinished(name string) error {
	j, old, err := r.open(name, journalName)
	if j == nil {
		return err
	}
	defer j.close()
	aside := old
	if old != "" {
		err = folders.Exchange(r.at(old), r.at(name))
	} else {
		aside = filepath.Base(folders.Hidden(r.root))
		err = os.Rename(r.at(name), r.at(aside))
	}
	if err == nil {
		err = durable.SyncFolder(r.root)
	}
	if err == nil {
		err = durable.Remove(filepath.Join(r.at(aside), journalName))
	}
	if err != nil {
		return err
	}
	r.settle(name, api.SaveFailed, notInService)
	r.h.Log.Warn("the server ended before an import was in service: the import is undone and is in the trash",
		"model", name, "replaced", old != "")
	return r.discard(aside, name)
}

// incomplete removes an import that was never in its place. If a file system exchanges folders by several renames, the
// place may be empty; then what was there is put back.
func (r *recovery) incomplete(name string) error {
	if !r.hidden[name] {
		return nil
	}
	if strings.HasSuffix(name, folders.PartName) {
		delete(r.hidden, name)
		return os.RemoveAll(r.at(name))
	}
	j, err := readJournal(r.at(name), journalName)
	if j == nil {
		return err
	}
	defer j.close()
	delete(r.hidden, name)
	old := name + folders.OldName
	if err != nil {
		delete(r.hidden, old)
		return nil // errBusy
	}
	if r.hidden[old] && j.Place != "" && !exists(r.at(j.Place)) {
		delete(r.hidden, old)
		if err := durable.Rename(r.at(old), r.at(j.Place)); err != nil {
			return err
		}
	}
	if j.Place != "" {
		r.settle(j.Place, api.SaveFailed, notInService)
	}
	r.h.Log.Info("an incomplete import is removed", "folder", r.at(name))
	return os.RemoveAll(r.at(name))
}

const notInService = "the server ended before the import was in service"

// settle stores what became of an import, unless its revision says so or there is none.
func (r *recovery) settle(model string, o api.SaveOutcome, reason string) {
	ctx := context.Background()
	rev, err := r.h.Writer.Store.FileRevision(ctx, r.h.Catalog.KeyIn(r.root, model))
	if err == nil && rev.Source == store.SourceImport && rev.Outcome == "" {
		r.h.Writer.SetOutcome(ctx, &rev, o, reason)
	}
}

// orphan moves a hidden folder without a journal to the trash: an older program left what an import has replaced.
func (r *recovery) orphan(name string) error {
	if os.Remove(r.at(name)) == nil {
		return nil // it was empty
	}
	model := "model"
	text, err := catalog.ReadConfig(filepath.Join(r.at(name), repo.ConfigName))
	if err == nil && text != nil {
		cfg, _, _ := modelconfig.Parse(repo.ConfigName, []byte(*text))
		if repo.CheckName(cfg.GetName()) == nil {
			model = cfg.GetName()
		}
	}
	return r.discard(name, model)
}

// discard moves a folder to the trash, from which it can be restored under a model's name.
func (r *recovery) discard(folder, model string) error {
	_, err := r.h.Trash.Put(r.h.Catalog.KeyIn(r.root, model), r.at(folder), r.at(model))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
