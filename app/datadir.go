package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dataDir is the folder that everything is kept in, held by a lock so that two servers do not share it.
type dataDir struct {
	path      string
	lock      *os.File
	temporary bool
}

// inUseError says that another program holds the data folder.
type inUseError struct {
	path, holder string // holder is " (pid 12)", or empty
}

func (e *inUseError) Error() string {
	return fmt.Sprintf("the data folder %s is in use by another nereid%s; stop that one, or give this one its own with --data-dir=<folder>", e.path, e.holder)
}

// openDataDir makes the folder and takes its lock. The error of a second start is an
// *inUseError, which names the holder and the cure.
func openDataDir(path string) (*dataDir, error) {
	if path == "" {
		return nil, errors.New("--data-dir: cannot tell where to keep data: $HOME is not defined; say --data-dir=<folder>")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: cannot make the data folder: %w; say --data-dir=<folder that you may write>", err)
	}
	name := filepath.Join(path, "lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: cannot open the lock of the data folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := ""
		if b, rerr := os.ReadFile(name); rerr == nil && len(b) > 0 {
			holder = " (pid " + strings.TrimSpace(string(b)) + ")"
		}
		_ = f.Close()
		return nil, &inUseError{path, holder}
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("--data-dir: cannot write to the data folder: %w", err)
	}
	return &dataDir{path: path, lock: f}, nil
}

// join returns a path inside the folder.
func (d *dataDir) join(name string) string { return filepath.Join(d.path, name) }

// python is what the Python backend keeps.
func (d *dataDir) python() string { return pythonFolder(d.path) }

// openTemporaryDataDir makes a folder that goes with the server, unless models that the user removed wait in it.
func openTemporaryDataDir() (*dataDir, error) {
	path, err := os.MkdirTemp("", "nereid-")
	if err != nil {
		return nil, fmt.Errorf("--data-dir: cannot make a temporary data folder: %w", err)
	}
	d, err := openDataDir(path)
	if err != nil {
		return nil, err
	}
	d.temporary = true
	return d, nil
}

func (d *dataDir) close() {
	if d.temporary {
		if trash, err := os.ReadDir(d.join("trash")); err != nil || len(trash) == 0 {
			_ = os.RemoveAll(d.path)
		}
	}
	_ = d.lock.Close() // which lets go of the lock
}
