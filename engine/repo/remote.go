package repo

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/engine/status"
)

// Remote is a model repository that is not in a local folder. Its models are copied to one when they are loaded. Its
// methods are safe for concurrent use.
type Remote interface {
	// List returns the files of the repository, or of one model if that is not "", in any order. A path with a slash
	// at its end is a folder; those that have files need not be there. It returns within a limited time. After an error
	// nothing is known about the repository.
	List(model string) ([]File, error)
	// Folder returns the local folder of a model, to which Fetch copies files.
	Folder(model string) string
	// Fetch copies files of a model, as listed by List, to Folder. Local files in scope (by their paths below Folder)
	// that are not among files are removed. Unchanged files are not touched, and changed ones are replaced atomically.
	// progress may be nil. It is called now and then, with the bytes that have been copied and the bytes of all files.
	Fetch(ctx context.Context, model string, files []File, scope func(rel string) bool, progress Progress) error
}

// Progress reports how many bytes of a copy are done.
type Progress func(done, total int64)

// File is a file of a Remote.
type File struct {
	Path     string // relative to the repository, with slashes
	Size     int64
	Modified time.Time
	Tag      string // changes with the content: an ETag or a generation
	MD5      []byte // of the content; nil if the storage does not provide it
}

// scanRemote is Scan for a remote repository.
func scanRemote(root string, r Remote, o *Options) (found []*Model, err error) {
	files, err := r.List(o.Only)
	if err != nil {
		return nil, err
	}
	byModel := map[string][]File{}
	for _, f := range files {
		name, rest, ok := strings.Cut(f.Path, "/")
		if ok && name != "" && rest != "" && !Ignored(name) && (o.Only == "" || name == o.Only) {
			byModel[name] = append(byModel[name], f)
		}
	}
	for name, files := range byModel {
		if !slices.ContainsFunc(files, func(f File) bool { return !strings.HasSuffix(f.Path, "/") }) {
			continue // folders without files
		}
		found = append(found, remoteModel(root, name, o.ConfigName, r, files))
	}
	return found, nil
}

// remoteModel is ScanModel for a remote model.
func remoteModel(root, name, configName string, r Remote, files []File) *Model {
	m := &Model{Name: name, Key: name, Root: root, Folder: r.Folder(name), Versions: map[int64]Fingerprint{}}
	versions := map[int64]*printer{}
	used := map[string]File{} // by path below the model
	var order []string
	for _, f := range files {
		rel := strings.TrimPrefix(f.Path, name+"/")
		if v, ok := versionOf(rel); ok && versions[v] == nil { // also of a marker or an ignored file
			versions[v] = newPrinter("")
		}
		if strings.HasSuffix(rel, "/") || hidden(rel) {
			continue // a marker of a folder, or a file that is ignored
		}
		if rel == "." || !fs.ValidPath(rel) || !filepath.IsLocal(rel) || strings.ContainsAny(rel, "\\\x00") {
			m.Err = status.Errorf(status.InvalidArg,
				"%s has an object %q, which cannot be a file in a model folder; rename or remove it", root, f.Path)
			continue
		}
		used[rel] = f
		order = append(order, rel)
	}
	for _, rel := range []string{path.Join("configs", configName+".pbtxt"), ConfigName} {
		if _, ok := used[rel]; ok && m.Config == "" && (rel == ConfigName || configName != "") {
			m.Config = filepath.Join(m.Folder, rel)
		}
	}
	shared := newPrinter(m.Config)
	for _, rel := range order {
		p := shared
		if v, ok := versionOf(rel); ok {
			p = versions[v]
		}
		p.remote(filepath.Join(m.Folder, rel), used[rel])
	}
	for v, p := range versions {
		m.Versions[v] = p.sum()
	}
	m.Shared, m.Rest = shared.sum(), nonzero(shared.rest)
	m.fetch = func(ctx context.Context, keep func(rel string) bool, progress Progress) error {
		var want []File
		for _, rel := range order {
			if keep(rel) {
				want = append(want, used[rel])
			}
		}
		return r.Fetch(ctx, name, want, keep, progress)
	}
	return m
}

// versionOf returns the version of a file by its path below the model. ok is false for a file that is in no version.
func versionOf(rel string) (version int64, ok bool) {
	first, _, below := strings.Cut(rel, "/")
	version, ok = ParseVersion(first)
	return version, ok && below
}

// hidden reports whether a part of a path is ignored.
func hidden(rel string) bool {
	for part := range strings.SplitSeq(rel, "/") {
		if part != "." && part != ".." && Ignored(part) {
			return true
		}
	}
	return false
}

func (p *printer) remote(local string, f File) {
	p.buf = fmt.Appendf(p.buf[:0], "%s\x00%s\x00%d\x00%x\x00", local, f.Tag, f.Size, f.MD5)
	p.add(local)
}

// Remote reports whether the model's files must be fetched before they can be read.
func (m *Model) Remote() bool { return m.fetch != nil }

// FetchShared copies the files of a remote model that are in no version to Folder: the configuration, labels, warmup
// data. For other models it does nothing.
func (m *Model) FetchShared(ctx context.Context) error {
	if m.fetch == nil {
		return nil
	}
	return m.fetch(ctx, func(rel string) bool {
		_, ok := versionOf(rel)
		return !ok
	}, nil)
}

// FetchVersion copies one version of a remote model to its folder below Folder. progress may be nil. For other models
// it does nothing.
func (m *Model) FetchVersion(ctx context.Context, number int64, progress Progress) error {
	if m.fetch == nil {
		return nil
	}
	err := m.fetch(ctx, func(rel string) bool {
		v, ok := versionOf(rel)
		return ok && v == number
	}, progress)
	if err == nil { // a version may have no files
		err = os.MkdirAll(filepath.Join(m.Folder, strconv.FormatInt(number, 10)), 0o700)
	}
	return err
}
