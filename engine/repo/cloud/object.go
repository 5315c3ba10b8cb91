package cloud

import (
	"context"
	"fmt"
	"path"
	"strings"

	"nereid/engine/repo"
	"nereid/engine/status"
)

// Object downloads one object, by its address, to a file. It continues what is there, as the beginning of the same
// content. o.Cache is not used. Errors: InvalidArg, NotFound, Unsupported for other storage.
func Object(ctx context.Context, text, file string, size int64, o Options, progress repo.Progress) error {
	folder, name := path.Split(text)
	a, err := parseAddress(folder)
	if err != nil {
		return err
	}
	b, err := openers[a.kind](ctx, a, text, o)
	if err != nil {
		return status.Errorf(status.InvalidArg, "%s: %w", text, err)
	}
	key, found := a.prefix+name, repo.File{}
	err = b.list(ctx, key, func(f repo.File) error {
		if f.Path == key {
			found = f
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", text, err)
	case found.Path == "" || strings.HasSuffix(text, "/"):
		return status.Errorf(status.NotFound, "there is no object %s", text)
	case found.Size != size:
		return status.Errorf(status.InvalidArg, "%s has %d bytes, not %d", text, found.Size, size)
	}
	r := &Repository{o: o, address: a, text: text, bucket: b}
	if err := r.complete(ctx, found, file, &meter{report: progress, total: size}); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}
