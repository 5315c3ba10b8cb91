package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"

	"nereid/app/console/api"
	"nereid/engine/inferencepb"
	"nereid/store"
)

// apiRevision returns a revision as the console's interface shows it.
func apiRevision(r store.Revision) api.Revision {
	out := api.Revision{ID: r.ID, Model: r.Model, TMs: r.TimeUS / 1000, Source: r.Source, Restores: r.Restores,
		Outcome: api.SaveOutcome(r.Outcome), Reason: r.Reason, Added: r.Added, Removed: r.Removed}
	if out.Outcome == "" { // the process ended before it was known
		out.Outcome = api.SaveSaved
	}
	return out
}

func lines(text *string) []string {
	if text == nil || *text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(*text, "\n"), "\n")
}

// FilesDigest returns a short name for the files in the folder of a version. It is equal as long as their names, sizes
// and modification times are; their contents are not read. It is empty if the folder cannot be read.
func FilesDigest(folder string) string {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return ""
	}
	sum := sha256.New()
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := os.Stat(path) // of what a link leads to
		if err == nil {
			fmt.Fprintf(sum, "%q %d %d\n", strings.TrimPrefix(path, folder), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// Digest returns a short name for a configuration: the same one for equal configurations, whatever their text. It is
// the beginning of a SHA-256 of the encoded message, and may change with the version of Nereid.
func Digest(c *inferencepb.ModelConfig) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}
