// Package datadir opens the folder in which a server keeps its data.
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Dir is a data folder. Its lock keeps two servers from sharing it.
type Dir struct {
	Path      string // absolute
	lock      *os.File
	temporary bool
}

// InUseError reports that another program has the lock of a data folder.
type InUseError struct {
	Path   string
	Holder string // " (pid 12)", or empty
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("the data folder %s is in use by another nereid%s; stop that one, or give this one its own "+
		"with --data-dir=<folder>", e.Path, e.Holder)
}

// Open makes the folder if needed and takes its lock. If another program has the lock, the error is an *InUseError.
func Open(path string) (*Dir, error) {
	if path == "" {
		return nil, errors.New("--data-dir: cannot tell where to keep data: $HOME is not defined; say " +
			"--data-dir=<folder>")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, unwritable(err)
	}
	name := filepath.Join(path, "lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := ""
		if b, rerr := os.ReadFile(name); rerr == nil && len(b) > 0 {
			holder = " (pid " + strings.TrimSpace(string(b)) + ")"
		}
		_ = f.Close()
		return nil, &InUseError{path, holder}
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, unwritable(err)
	}
	return &Dir{Path: path, lock: f}, nil
}

// unwritable says what to do about a folder that cannot be written.
func unwritable(err error) error {
	return fmt.Errorf("the server needs one folder that it may write, on a disk or in memory (tmpfs): %w; "+
		"name one with --data-dir=<folder>", err)
}

// Join returns a path inside the folder.
func (d *Dir) Join(name string) string { return filepath.Join(d.Path, name) }

// Captures is where a data folder has the captured contents of requests.
func Captures(path string) string { return filepath.Join(path, "captures") }

// Python is where a data folder holds what the Python backend needs, such as environments.
func Python(path string) string { return filepath.Join(path, "runtime", "python") }

// OpenTemporary makes a folder that Close deletes, unless it holds models that the user moved to the trash.
func OpenTemporary() (*Dir, error) {
	path, err := os.MkdirTemp("", "nereid-")
	if err != nil {
		return nil, unwritable(err)
	}
	d, err := Open(path)
	if err != nil {
		return nil, err
	}
	d.temporary = true
	return d, nil
}

// Close releases the lock.
func (d *Dir) Close() {
	if d.temporary {
		if trash, err := os.ReadDir(d.Join("trash")); err != nil || len(trash) == 0 {
			_ = os.RemoveAll(d.Path)
		}
	}
	_ = d.lock.Close() // which releases the lock
}
