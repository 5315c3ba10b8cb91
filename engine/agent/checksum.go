package agent

import (
	"context"
	"crypto/md5" //nolint:gosec // Triton's configurations use it; SHA256 is the secure alternative
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nereid/engine/status"
)

type checksum struct{}

// Checksum returns Triton's checksum agent. The key of each parameter names a file, as "MD5:<path in the model's
// folder>" or "SHA256:<path>", and the value is its digest in hexadecimal. SHA256 is an extension of Triton's agent. A
// model is not loaded if a digest differs.
func Checksum() Agent { return checksum{} }

func (checksum) Name() string { return "checksum" }

func (checksum) Act(ctx context.Context, a Action, m *Model) error {
	if a != Load {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(m.Parameters)) {
		if err := ctx.Err(); err != nil {
			return status.Errorf(status.Cancelled, "checksum: %w", err)
		}
		if err := check(m.Folder, key, m.Parameters[key]); err != nil {
			return err
		}
	}
	return nil
}

func check(folder, key, want string) error {
	kind, path, ok := strings.Cut(key, ":")
	var h hash.Hash
	switch kind {
	case "MD5":
		h = md5.New() //nolint:gosec // see above
	case "SHA256":
		h = sha256.New()
	default:
		ok = false
	}
	if !ok || !filepath.IsLocal(path) {
		return status.Errorf(status.InvalidArg,
			"checksum: parameter %q is neither MD5:<path> nor SHA256:<path> with a path inside the model's folder", key)
	}
	f, err := os.Open(filepath.Join(folder, path)) // also through a link, as backends do
	if err != nil {
		return status.Errorf(status.InvalidArg, "checksum: %w", err)
	}
	defer f.Close() // read only
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return status.Errorf(status.InvalidArg, "checksum: %s is not a regular file", path)
	}
	if _, err := io.Copy(h, f); err != nil {
		return status.Errorf(status.Internal, "checksum: cannot read %s: %w", path, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); !strings.EqualFold(got, want) {
		return status.Errorf(status.InvalidArg, "Mismatched %s hash for file %s, expect: %s, got: %s", kind, path, want,
			got)
	}
	return nil
}
