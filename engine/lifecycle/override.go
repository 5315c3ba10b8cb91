package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"nereid/engine/repo"
	"nereid/engine/status"
)

// Override replaces files of the repository in a load request, as Triton's load parameters do.
type Override struct {
	// Config is the model configuration as JSON; "": the repository's.
	Config string
	// Files are the model folder's files by path: "1/model.onnx". They need Config, and hide the repository's files.
	Files map[string][]byte
}

// override is an Override that is in use.
type override struct {
	config string
	folder string // a repository with only this model; "" if there are no files
	// users are the model's entry and the models loaded from the files that are not closed; guarded by Manager.mu. They
	// need the files: a process may have to be started again, and an evicted model to be loaded again.
	users int
}

// hold counts a user of the override. Manager.mu is held.
func (o *override) hold() {
	if o != nil {
		o.users++
	}
}

// release ends what hold began; with the last user the files go. Manager.mu is held.
func (o *override) release() {
	if o == nil {
		return
	}
	if o.users--; o.users == 0 {
		o.remove()
	}
}

// remove deletes the override's files.
func (o *override) remove() {
	if o.hasFiles() {
		_ = os.RemoveAll(o.folder) // what is left is in the temporary folder
	}
}

// contains reports whether a model was scanned in the override's files.
func (o *override) contains(src *repo.Model) bool {
	return o.hasFiles() && o.folder == src.Root
}

func (o *override) hasFiles() bool { return o != nil && o.folder != "" }

// scan returns the model of a key as the override's files make it.
func (o *override) scan(key string) *repo.Model {
	_, name := repo.Split(key)
	src := repo.ScanModel(o.folder, name, "")
	src.Key = key
	return src
}

// unpack writes an override's files into a separate repository. name is the model's in the request, key the one of its
// entry. Errors have Triton's text.
func (o *Options) unpack(name, key string, over *Override) (*override, error) {
	if over == nil || over.Config == "" && len(over.Files) == 0 {
		return nil, nil
	}
	if over.Config == "" {
		return nil, notPolled(name,
			status.New(status.InvalidArg, "a load request with files must have the parameter 'config' too"))
	}
	ov := &override{config: over.Config}
	if len(over.Files) == 0 {
		return ov, nil
	}
	folder, err := os.MkdirTemp(o.OverrideFolder, "override-")
	if err != nil {
		return nil, notPolled(name, fmt.Errorf("cannot make a folder for the override files: %w", err))
	}
	ov.folder = folder
	_, plain := repo.Split(key)
	for path, data := range over.Files {
		if err := writeOverride(name, filepath.Join(folder, plain), path, data); err != nil {
			ov.remove()
			return nil, err
		}
	}
	return ov, nil
}

// maxOverrideFiles is how many files a load request may bring: a model has a few, a request to fill the disk with
// folders many.
const maxOverrideFiles = 4096

// check reports a file that would lie outside the folder of the model, and too many of them.
func (o *Override) check(model string) error {
	if o == nil {
		return nil
	}
	if len(o.Files) > maxOverrideFiles {
		return status.Errorf(status.InvalidArg,
			"the load request brings %d files, at most %d are taken; put the model into a repository", len(o.Files),
			maxOverrideFiles)
	}
	for path := range o.Files {
		if !filepath.IsLocal(path) || strings.ContainsAny(path, "\\\x00") || strings.HasSuffix(path, "/") {
			return status.Errorf(status.InvalidArg, "%w", notPolled(model, fmt.Errorf(
				"file override %q must be a path inside the model folder, such as file:1/model.onnx", path)))
		}
	}
	return nil
}

// writeOverride writes one file of the model; its path is checked.
func writeOverride(name, folder, path string, data []byte) error {
	target := filepath.Join(folder, path)
	err := os.MkdirAll(filepath.Dir(target), 0o700)
	if err == nil {
		err = os.WriteFile(target, data, 0o600)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return notPolled(name, fmt.Errorf(
			"file override %.100q cannot be written; use shorter names, and no name for both a file and a folder: %w",
			path, errors.Unwrap(err)))
	}
	return notPolled(name, fmt.Errorf("cannot write file override: %w", err))
}
