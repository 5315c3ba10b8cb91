package folders

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/app/durable"
)

// Size returns the bytes of the regular files in a folder, or of a file.
func Size(path string) (total int64, err error) {
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// List lists the regular files in a folder, by path. Hidden files are left out.
func List(dir string) ([]api.File, error) {
	var out []api.File
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(p)
		if err != nil || !info.Mode().IsRegular() {
			return nil // a folder, a broken link, or removed since
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		out = append(out, api.File{Path: filepath.ToSlash(rel), SizeBytes: info.Size(),
			ModMs: info.ModTime().UnixMilli()})
		return nil
	})
	return out, err
}

// Writable reports whether this process may create files in a folder.
func Writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }

// NewID returns a random name for a file or folder.
func NewID() string { return rand.Text()[:16] }

// Hidden returns the path of a new hidden folder in dir. The engine does not take hidden folders for models.
func Hidden(dir string) string { return filepath.Join(dir, ".nereid-"+NewID()) }

// OldName is what Hidden's name has at its end while Exchange has no atomic way: the folder is what was in the place.
const OldName = "-old"

// PartName is what Hidden's name has at its end for a folder that is half copied or half removed.
const PartName = "-part"

// Move renames a folder, durably. Between file systems it first copies the folder to a hidden name beside the target,
// so that the target is complete or absent.
func Move(from, to string) error {
	err := durable.Rename(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	part := Hidden(filepath.Dir(to)) + PartName
	if err = copyTree(from, part); err == nil {
		err = durable.SyncTree(part)
	}
	if err == nil {
		err = durable.Rename(part, to)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return Remove(from)
}

// Remove removes a folder that is needed no more. A crash does not leave half of it under its name. The next start
// removes what stays under a hidden name.
func Remove(dir string) error {
	gone := Hidden(filepath.Dir(dir)) + PartName
	if err := os.Rename(dir, gone); err != nil {
		return err
	}
	_ = os.RemoveAll(gone)
	return nil
}

// copyTree copies regular files, folders and links. It refuses other files.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, strings.TrimPrefix(p, from))
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
		return rest.Errorf(api.CodeInvalid, "%s is neither a file nor a folder", p)
	})
}

// placeByRename is Place where the system cannot do it in one step.
func placeByRename(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}

// exchangeByRenames swaps two folders where the system cannot do it in one step. In between, b is a+OldName.
func exchangeByRenames(a, b string) error {
	aside := a + OldName
	if err := os.Rename(b, aside); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return errors.Join(err, os.Rename(aside, b))
	}
	return os.Rename(aside, a)
}
