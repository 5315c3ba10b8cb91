package imports

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
	"nereid/engine/system/proc"
)

// copyModel copies a staged model folder into the folder to, which exists, and publishes the progress. The caller syncs
// the files. copyModel links files where the file system can do that, since staged files are never changed in place.
func (h *Handler) copyModel(ctx context.Context, s *staged, from, to string) error {
	total, err := folders.Size(from)
	if err != nil {
		return err
	}
	var done int64
	last := time.Now()
	wrote := func(n int) {
		done += int64(n)
		if time.Since(last) > 200*time.Millisecond {
			last = time.Now()
			h.step(s, "copy", float64(done)/float64(max(total, 1)))
		}
	}
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, strings.TrimPrefix(p, from))
		switch {
		case p == from: // to is there already
			return nil
		case d.IsDir():
			return os.Mkdir(at, 0o755)
		}
		if os.Link(p, at) == nil {
			return nil
		}
		root := filepath.Dir(to)
		if free, ok := proc.FreeBytes(root); ok && done == 0 && uint64(total) > free {
			return rest.Errorf(api.CodeTooLarge, "the model has %d bytes, but only %d are free in %s", total,
				free, root)
		}
		return copyFile(ctx, p, at, wrote)
	})
}

// copyFile copies a file until ctx is done, and calls wrote after each part with its bytes.
func copyFile(ctx context.Context, from, to string, wrote func(int)) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	for err == nil {
		var n int64
		n, err = io.CopyN(out, in, 1<<20)
		wrote(int(n))
		if ctx.Err() != nil {
			err = errors.Join(err, rest.Errorf(api.CodeUnavailable, "the server is stopping"))
		}
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, out.Close())
}
