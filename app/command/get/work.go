package get

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nereid/app/durable"
	"nereid/engine/system/glob"
)

// prefix begins the names of the folders in a repository in which models are made. The engine ignores hidden folders.
const prefix = ".nereid-get-"

// keepFor is how long the beginning of a download is kept for the next command.
const keepFor = 7 * 24 * time.Hour

// workspace is the hidden folder of one source in a repository. Its name is made from the source: the same command
// finds what an earlier one has left. One process has it at a time.
type workspace struct {
	dir  string
	lock *os.File
}

// openWorkspace takes the workspace of a source. It removes the old ones that no process has.
func openWorkspace(repository, source string) (*workspace, error) {
	for _, dir := range glob.In(repository, prefix+"*") {
		if info, err := os.Stat(filepath.Join(dir, "lock")); err != nil || time.Since(info.ModTime()) < keepFor {
			continue
		}
		if w, err := lockWorkspace(dir); err == nil {
			if err := w.remove(); err != nil {
				return nil, err
			}
		}
	}
	sum := sha256.Sum256([]byte(source))
	w, err := lockWorkspace(filepath.Join(repository, prefix+hex.EncodeToString(sum[:8])))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(w.clear(), os.MkdirAll(w.downloads(), 0o700), os.Mkdir(w.models(), 0o700)); err != nil {
		return nil, errors.Join(err, w.remove())
	}
	return w, nil
}

func lockWorkspace(dir string) (*workspace, error) {
	for range 100 {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		path := filepath.Join(dir, "lock")
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has just removed the folder
		}
		if err != nil {
			return nil, err
		}
		if durable.Lock(f) != nil {
			f.Close()
			return nil, errors.New("another nereid get brings this source into the repository; wait for it")
		}
		locked, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Stat(path); err != nil || !os.SameFile(locked, there) {
			f.Close()
			continue // it was removed before it was locked
		}
		now := time.Now()
		return &workspace{dir, f}, os.Chtimes(path, now, now)
	}
	return nil, fmt.Errorf("%s appears and disappears", dir)
}

// downloads has what is fetched. It may be kept for the next command.
func (w *workspace) downloads() string { return filepath.Join(w.dir, "downloads") }

// models has the model folders that are made.
func (w *workspace) models() string { return filepath.Join(w.dir, "models") }

func (w *workspace) clear() error { return os.RemoveAll(w.models()) }

// keep ends the use of the workspace and leaves the downloads.
func (w *workspace) keep() error { return errors.Join(w.clear(), w.lock.Close()) }

// remove ends the use of the workspace and leaves nothing.
func (w *workspace) remove() error { return errors.Join(os.RemoveAll(w.dir), w.lock.Close()) }
