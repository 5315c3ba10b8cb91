package cloud

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"nereid/engine/repo"
	"nereid/engine/status"
)

// Options are the settings of Open.
type Options struct {
	// Cache is the folder for copies. The environment variables of Triton take precedence: TRITON_AWS_MOUNT_DIRECTORY,
	// TRITON_GCS_MOUNT_DIRECTORY and TRITON_AZURE_MOUNT_DIRECTORY.
	Cache string
	// Lookup looks up environment variables: os.LookupEnv.
	Lookup func(string) (string, bool)
	Log    *slog.Logger
	// ListTimeout limits a listing. 0: 1 minute.
	ListTimeout time.Duration
	// Pause is the time before the second attempt of a download. It doubles with each further attempt. 0: 1 s.
	Pause time.Duration
	// Transport carries the requests. nil: the default one.
	Transport http.RoundTripper
}

// responseTimeout is how long a server may take to begin a response.
const responseTimeout = time.Minute

// client returns an HTTP client. It limits only the time until a response begins, because downloads take long.
func (o Options) client() *http.Client {
	t := o.Transport
	if t == nil {
		d := http.DefaultTransport.(*http.Transport).Clone()
		d.ResponseHeaderTimeout = responseTimeout
		t = d
	}
	return &http.Client{Transport: t}
}

// bucket is a bucket or container of one kind of storage. Paths are whole keys.
type bucket interface {
	// list calls each for every object whose key has a prefix.
	list(ctx context.Context, prefix string, each func(repo.File) error) error
	// open reads a listed file from an offset on. Errors: errChanged, errNoRange.
	open(ctx context.Context, f repo.File, from int64) (io.ReadCloser, error)
}

var (
	errChanged = errors.New("the object was changed or removed during the download; the next attempt lists it again")
	errNoRange = errors.New("the server cannot send a part of an object")
)

// contentTag is the prefix of tags that identify a content independently of its place.
const contentTag = "etag:"

// maxFiles limits the number of files in a listing.
const maxFiles = 1 << 20

// Repository is a model repository in a bucket.
type Repository struct {
	o       Options
	address address
	text    string
	bucket  bucket
	cache   *cache
	folder  string // of the models' folders

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu    sync.Mutex
	locks map[string]*sync.Mutex // held while a model or a content is copied; guarded by mu
}

var _ repo.Remote = (*Repository)(nil)

// Open opens a repository by its address. It looks for credentials, but makes no request to the storage. The caller
// closes the repository. Errors: InvalidArg, Unsupported for other storage, Internal if the cache folder cannot be
// created.
func Open(ctx context.Context, text string, o Options) (*Repository, error) {
	a, err := parseAddress(text)
	if err != nil {
		return nil, err
	}
	b, err := openers[a.kind](ctx, a, text, o)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "model repository %s: %w", text, err)
	}
	root, err := o.cacheFolder(a.kind)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(a.String()))
	r := &Repository{o: o, address: a, text: text, bucket: b, locks: map[string]*sync.Mutex{},
		cache:  &cache{dir: filepath.Join(root, "objects")},
		folder: filepath.Join(root, "repositories", hex.EncodeToString(sum[:8]))}
	for _, dir := range []string{r.cache.dir, r.folder} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, status.Errorf(status.Internal, "model repository %s: no folder for its copies: %w", text, err)
		}
	}
	r.ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

var openers = map[kind]func(context.Context, address, string, Options) (bucket, error){
	kindS3: openS3, kindGCS: openGCS, kindAzure: openAzure, kindHDFS: openHDFS}

// mountVariables are Triton's environment variables for the folder of copies.
var mountVariables = map[kind]string{
	kindS3:    "TRITON_AWS_MOUNT_DIRECTORY",
	kindGCS:   "TRITON_GCS_MOUNT_DIRECTORY",
	kindAzure: "TRITON_AZURE_MOUNT_DIRECTORY",
}

func (o Options) cacheFolder(k kind) (string, error) {
	name := mountVariables[k]
	dir := o.env(name)
	if dir == "" {
		return o.Cache, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", status.Errorf(status.InvalidArg, "%s: %w; it must be an existing folder", name, err)
	}
	if !info.IsDir() {
		return "", status.Errorf(status.InvalidArg, "%s: %s is not a folder", name, dir)
	}
	return filepath.Abs(dir)
}

// Close cancels listings and downloads. Downloaded contents stay, also incomplete ones.
func (r *Repository) Close() { r.stop() }

// Folder returns the folder to which Fetch copies a model.
func (r *Repository) Folder(model string) string { return filepath.Join(r.folder, model) }

// List lists the repository's files, or one model's.
func (r *Repository) List(model string) ([]repo.File, error) {
	limit := cmp.Or(r.o.ListTimeout, time.Minute)
	ctx, stop := context.WithTimeoutCause(r.ctx, limit, fmt.Errorf("the listing was not complete within %v", limit))
	defer stop()
	prefix := r.address.prefix
	if model != "" {
		prefix += model + "/"
	}
	var files []repo.File
	err := r.bucket.list(ctx, prefix, func(f repo.File) error {
		if len(files) == maxFiles {
			return fmt.Errorf("there are more than %d objects; name a path with fewer", maxFiles)
		}
		f.Path = strings.TrimPrefix(f.Path, r.address.prefix)
		files = append(files, f)
		return nil
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && r.ctx.Err() == nil {
		err = cause
	}
	if err != nil {
		return nil, err
	}
	if model == "" {
		r.prune(files)
	}
	return files, nil
}

// prune removes the copies of models that are not in the repository any more.
func (r *Repository) prune(files []repo.File) {
	exists := map[string]bool{}
	for _, f := range files {
		name, _, _ := strings.Cut(f.Path, "/")
		exists[name] = exists[name] || !strings.HasSuffix(f.Path, "/")
	}
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		r.o.Log.Warn("copies of removed models cannot be listed", "folder", r.folder, "err", err)
		return
	}
	for _, e := range entries {
		if !exists[e.Name()] {
			unlock := r.lock(e.Name())
			err := os.RemoveAll(filepath.Join(r.folder, e.Name()))
			unlock()
			if err != nil {
				r.o.Log.Warn("the copy of a removed model cannot be removed", "model", e.Name(), "err", err)
			}
		}
	}
	if err := r.cache.prune(); err != nil {
		r.o.Log.Warn("unused copies cannot be removed", "folder", r.cache.dir, "err", err)
	}
}

// lock locks a model or a content by its name.
func (r *Repository) lock(name string) (unlock func()) {
	r.mu.Lock()
	l := r.locks[name]
	if l == nil {
		l = new(sync.Mutex)
		r.locks[name] = l
	}
	r.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// maxParallel is how many files of a model are downloaded at the same time.
const maxParallel = 4

// Fetch copies files of a model to its folder; see repo.Remote.
func (r *Repository) Fetch(ctx context.Context, model string, files []repo.File, scope func(rel string) bool,
	progress repo.Progress) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(errors.New("the server is stopping")) })()
	defer r.lock(model)()
	p := &meter{report: progress}
	for _, f := range files {
		p.total += f.Size
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallel)
	for _, f := range files {
		group.Go(func() error {
			if groupCtx.Err() != nil {
				return nil
			}
			if err := r.fetch(groupCtx, f, p); err != nil {
				return status.Errorf(status.Internal, "failed to download %s/%s: %w",
					strings.TrimSuffix(r.text, "/"), f.Path, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return status.Errorf(status.Cancelled, "the download of model '%s' was given up: %w", model, err)
	}
	if err := r.clean(model, files, scope); err != nil {
		return status.Errorf(status.Internal, "the copy of model '%s' cannot be updated: %w", model, err)
	}
	return nil
}

// fetch copies one file.
func (r *Repository) fetch(ctx context.Context, f repo.File, p *meter) error {
	target := filepath.Join(r.folder, filepath.FromSlash(f.Path))
	object := r.cache.path(r.address, f)
	if same(target, object, f.Size) {
		p.add(f.Size)
		return nil
	}
	key := f
	key.Path = r.address.prefix + f.Path
	unlock := r.lock("object " + filepath.Base(object)) // no model has such a name
	defer unlock()
	if err := r.download(ctx, key, object, p); err != nil {
		return err
	}
	return place(object, target)
}

// clean removes local files that are in scope and not listed.
func (r *Repository) clean(model string, files []repo.File, scope func(rel string) bool) error {
	root := r.Folder(model)
	keep := map[string]bool{}
	for _, f := range files {
		for at := filepath.FromSlash(f.Path); at != "." && at != string(filepath.Separator); at = filepath.Dir(at) {
			keep[filepath.Join(r.folder, at)] = true
		}
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == "." || keep[path] || d.IsDir() || !scope(filepath.ToSlash(rel)) {
			return err
		}
		return os.Remove(path)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no copy of the model
	}
	return err
}
