// Package replace writes files in one step: other programs read the old content or the new one, never a part. It
// starts no goroutines.
package replace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File gives a file new content and permissions. The content is first written to a file beside it whose name begins
// with a dot. Nothing is synced to the disk: after a loss of power the file may be damaged.
func File(path string, content io.Reader, mode fs.FileMode) error {
	part, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	_, err = io.Copy(part, content)
	if err = errors.Join(err, part.Chmod(mode), part.Close()); err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}
