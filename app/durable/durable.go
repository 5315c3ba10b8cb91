// Package durable writes files atomically and syncs them to disk, so that they survive a loss of power.
// It starts no goroutines.
package durable

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// Replace gives a file new content. An existing file keeps its permissions; a new one gets mode, before the umask. The
// content is first written to a file next to it whose name begins with a dot.
func Replace(path string, content []byte, mode fs.FileMode) error {
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := err == nil
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".nereid-"+rand.Text()[:16])
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_ = Lock(f) // until it is closed, so that RemoveLeft of another process leaves it
	if there {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(content)
	}
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(part, path)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return SyncFolder(filepath.Dir(path))
}

// left matches the files that Replace writes before it renames them.
var left = regexp.MustCompile(`^\..+\.nereid-[A-Z2-7]{16}$`)

// RemoveLeft removes what Replace left in a folder when its process was killed. It leaves the files that other
// processes are writing.
func RemoveLeft(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !e.Type().IsRegular() || !left.MatchString(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := os.Open(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if Lock(f) == nil {
			errs = append(errs, os.Remove(path))
		}
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Lock locks an open file until it is closed or its process ends. The error says that another process has the lock, or
// that the file system has no locks.
func Lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// Remove removes a file, if it is there, and syncs its folder.
func Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// Rename renames a file or folder in one file system, and syncs the folders that it leaves and enters.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := SyncFolder(filepath.Dir(to)); err != nil || filepath.Dir(from) == filepath.Dir(to) {
		return err
	}
	return SyncFolder(filepath.Dir(from))
}

// Copy copies a file, with its permissions, before the umask, and its time. The destination must not exist.
func Copy(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close(), os.Chtimes(to, time.Time{}, info.ModTime()))
}

// SyncTree syncs the files and folders of a tree, and the entries of the folder that it is in.
func SyncTree(dir string) error {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		return SyncFolder(p) // a file is synced the same way
	})
	if err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(dir))
}

// SyncFolder syncs the entries of a folder to disk. Some file systems cannot do this and do not need it.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return err
	}
	return nil
}
