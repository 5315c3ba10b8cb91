package repo

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"nereid/engine/status"
)

// Remote is a model repository that is not in a folder of this machine. Its models are copied into one when they are
// loaded. Its methods are safe for concurrent use.
type Remote interface {
	// List returns the files below the repository, or below one model if that is not "", in any order. It ends by itself in
	// bounded time. An error means that nothing is known.
	List(model string) ([]File, error)
	// Folder is where Fetch puts the model's files on this machine.
	Folder(model string) string
	// Fetch brings files of a model, as List told of them, to Folder. Files that are there and in scope (by their paths
	// below Folder) but not among them are removed. What is the same is left untouched, what differs is replaced
	// whole. progress may be nil; it is called now and then, with the bytes that are here of those that are needed.
	Fetch(ctx context.Context, model string, files []File, scope func(rel string) bool, progress func(done, total int64)) error
}

// File is a file of a Remote.
type File struct {
	Path     string // relative to the repository, with slashes
	Size     int64
	Modified time.Time
	// Tag changes with the content: an etag or a generation.
	Tag string
	// MD5 of the content, if the storage tells; else nil.
	MD5 []byte
}

// scanRemote is what Scan does for a remote repository.
func scanRemote(root string, r Remote, o Options) (map[string]*Model, error) {
	files, err := r.List(o.Only)
	if err != nil {
		return nil, err
	}
	byModel := map[string][]File{}
	for _, f := range files {
		name, rest, ok := strings.Cut(f.Path, "/")
		if !ok || name == "" || rest == "" || Ignored(name) || o.Only != "" && name != o.Only {
			continue
		}
		byModel[name] = append(byModel[name], f)
	}
	models := map[string]*Model{}
	for name, files := range byModel {
		models[name] = remoteModel(root, name, o.ConfigName, r, files)
	}
	return models, nil
}

// remoteModel is what ScanModel does for a remote model.
func remoteModel(root, name, configName string, r Remote, files []File) *Model {
	m := &Model{Name: name, Key: name, Root: root, Folder: r.Folder(name), Versions: map[int64]Print{}}
	var used []File
	versions := map[int64]*printer{}
	shared := newPrinter()
	for _, f := range files {
		rel := strings.TrimPrefix(f.Path, name+"/")
		if strings.HasSuffix(rel, "/") || hidden(rel) {
			continue // a marker of a folder, or a file that does not count
		}
		if rel == "." || !fs.ValidPath(rel) || !filepath.IsLocal(rel) || strings.ContainsAny(rel, "\\\x00") {
			m.Err = status.Errorf(status.InvalidArg, "%s has an object %q, which cannot be a file in a model folder; rename or remove it", root, f.Path)
			continue
		}
		used = append(used, f)
		switch rel {
		case path.Join("configs", configName+".pbtxt"):
			if configName != "" {
				m.Config = filepath.Join(m.Folder, rel)
			}
		case ConfigName:
			if m.Config == "" {
				m.Config = filepath.Join(m.Folder, rel)
			}
		}
	}
	shared.skip = m.Config
	for _, f := range used {
		rel := strings.TrimPrefix(f.Path, name+"/")
		first, _, below := strings.Cut(rel, "/")
		if v, ok := ParseVersion(first); ok && below {
			if versions[v] == nil {
				versions[v] = newPrinter()
			}
			versions[v].remote(filepath.Join(m.Folder, rel), f)
			continue
		}
		shared.remote(filepath.Join(m.Folder, rel), f)
	}
	for v, p := range versions {
		m.Versions[v] = p.sum()
	}
	m.Shared, m.Rest = shared.sum(), nonzero(shared.rest)
	m.fetch = func(ctx context.Context, keep func(rel string) bool, progress func(done, total int64)) error {
		var want []File
		for _, f := range used {
			if keep(strings.TrimPrefix(f.Path, name+"/")) {
				want = append(want, f)
			}
		}
		return r.Fetch(ctx, name, want, keep, progress)
	}
	return m
}

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
	_, _ = p.all.Write(p.buf) // a hash never fails
	if local != p.skip {
		_, _ = p.rest.Write(p.buf)
	}
}

// Remote reports whether the model's files are to be fetched before they can be read.
func (m *Model) Remote() bool { return m.fetch != nil }

// FetchShared brings what is in no version of a remote model to Folder: the configuration, labels, warmup data. For
// other models it does nothing.
func (m *Model) FetchShared(ctx context.Context) error {
	if m.fetch == nil {
		return nil
	}
	return m.fetch(ctx, func(rel string) bool {
		first, _, below := strings.Cut(rel, "/")
		_, version := ParseVersion(first)
		return !version || !below
	}, nil)
}

// FetchVersion brings one version of a remote model to its folder below Folder. progress, if not nil, hears of the
// bytes that are here, of those of the version. For other models it does nothing.
func (m *Model) FetchVersion(ctx context.Context, number int64, progress func(done, total int64)) error {
	if m.fetch == nil {
		return nil
	}
	return m.fetch(ctx, func(rel string) bool {
		first, _, below := strings.Cut(rel, "/")
		v, version := ParseVersion(first)
		return version && below && v == number
	}, progress)
}
