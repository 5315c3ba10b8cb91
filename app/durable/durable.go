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
	if there {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(content)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return SyncFolder(filepath.Dir(path))
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
