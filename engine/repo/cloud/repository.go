package cloud

import (
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

	"nereid/engine/repo"
	"nereid/engine/status"
)

// Options say how repositories are read.
type Options struct {
	// Cache is the folder for copies of what is downloaded. The mount directories of Triton's, where the environment has
	// them, go before: TRITON_AWS_MOUNT_DIRECTORY, TRITON_GCS_MOUNT_DIRECTORY, TRITON_AZURE_MOUNT_DIRECTORY.
	Cache string
	// Lookup looks up environment variables: os.LookupEnv.
	Lookup func(string) (string, bool)
	Log    *slog.Logger
	// ListTimeout bounds a listing. 0: 1 minute.
	ListTimeout time.Duration
	// Pause is what is waited before the second try of a download, the double before each more. 0: 1 s.
	Pause time.Duration
	// Transport carries the requests. nil: the default one.
	Transport http.RoundTripper
}

// answerLimit is how long a server may say nothing to a request.
const answerLimit = time.Minute

// client has no time limit of its own: downloads are long. A server that answers nothing is given up.
func (o Options) client() *http.Client {
	t := o.Transport
	if t == nil {
		d := http.DefaultTransport.(*http.Transport).Clone()
		d.ResponseHeaderTimeout = answerLimit
		t = d
	}
	return &http.Client{Transport: t}
}

// bucket is storage of one kind. Paths are whole keys.
type bucket interface {
	list(ctx context.Context, prefix string, each func(repo.File) error) error
	// open reads a file, as it was listed, from an offset on. Errors: errChanged, errNoRange.
	open(ctx context.Context, f repo.File, from int64) (io.ReadCloser, error)
}

var (
	errChanged = errors.New("the object changed or went away while it was downloaded; it is listed anew at the next try")
	errNoRange = errors.New("the server cannot send a part of an object")
)

// contentTag stands before tags that tell contents apart wherever they are.
const contentTag = "etag:"

// maxFiles bounds what a listing may have.
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

	mu     sync.Mutex
	models map[string]*sync.Mutex // held while a model is fetched; guarded by mu
}

var _ repo.Remote = (*Repository)(nil)

// Open makes a repository from its address. It looks for credentials and does not yet ask for anything. The caller
// closes it. Errors: InvalidArg, Unsupported for other storage, Internal when the cache folder cannot be had.
func Open(ctx context.Context, text string, o Options) (*Repository, error) {
	a, err := parseAddress(text)
	if err != nil {
		return nil, err
	}
	open := map[kind]func(context.Context, address, string, Options) (bucket, error){
		kindS3: openS3, kindGCS: openGCS, kindAzure: openAzure}[a.kind]
	b, err := open(ctx, a, text, o)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "model repository %s: %w", text, err)
	}
	root, err := o.cacheFolder(a.kind)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(a.String()))
	r := &Repository{o: o, address: a, text: text, bucket: b, cache: &cache{dir: filepath.Join(root, "objects")},
		folder: filepath.Join(root, "repositories", hex.EncodeToString(sum[:8])), models: map[string]*sync.Mutex{}}
	for _, dir := range []string{r.cache.dir, r.folder} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, status.Errorf(status.Internal, "model repository %s: no folder for its copies: %w", text, err)
		}
	}
	r.ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

// mountVariables are Triton's names for where copies go.
var mountVariables = map[kind]string{
	kindS3: "TRITON_AWS_MOUNT_DIRECTORY", kindGCS: "TRITON_GCS_MOUNT_DIRECTORY", kindAzure: "TRITON_AZURE_MOUNT_DIRECTORY",
}

func (o Options) cacheFolder(k kind) (string, error) {
	name := mountVariables[k]
	dir := o.env(name)
	if dir == "" {
		return o.Cache, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", status.Errorf(status.InvalidArg, "%s: %w; it must be a folder that is there", name, err)
	}
	if !info.IsDir() {
		return "", status.Errorf(status.InvalidArg, "%s: %s is not a folder", name, dir)
	}
	return filepath.Abs(dir)
}

// Close gives up what is being listed or downloaded. What was downloaded stays, also in part.
func (r *Repository) Close() { r.stop() }

// Folder is where Fetch puts a model.
func (r *Repository) Folder(model string) string { return filepath.Join(r.folder, model) }

// List lists the repository's files, or one model's.
func (r *Repository) List(model string) ([]repo.File, error) {
	limit := r.o.ListTimeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, stop := context.WithTimeoutCause(r.ctx, limit, fmt.Errorf("no whole list within %v", limit))
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
		r.forget(files)
	}
	return files, nil
}

// forget removes the copies of models that are not there any more.
func (r *Repository) forget(files []repo.File) {
	there := map[string]bool{}
	for _, f := range files {
		name, _, _ := strings.Cut(f.Path, "/")
		there[name] = true
	}
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		r.o.Log.Warn("copies of removed models cannot be looked for", "folder", r.folder, "err", err)
		return
	}
	for _, e := range entries {
		if !there[e.Name()] {
			unlock := r.lock(e.Name())
			err := os.RemoveAll(filepath.Join(r.folder, e.Name()))
			unlock()
			if err != nil {
				r.o.Log.Warn("the copy of a removed model cannot be removed", "model", e.Name(), "err", err)
			}
		}
	}
	if err := r.cache.prune(); err != nil {
		r.o.Log.Warn("copies that nothing needs cannot be removed", "folder", r.cache.dir, "err", err)
	}
}

func (r *Repository) lock(model string) (unlock func()) {
	r.mu.Lock()
	l := r.models[model]
	if l == nil {
		l = new(sync.Mutex)
		r.models[model] = l
	}
	r.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// parallel is how many files of a model are downloaded at once.
const parallel = 4

// Fetch brings files of a model to its folder; see repo.Remote.
func (r *Repository) Fetch(ctx context.Context, model string, files []repo.File, scope func(rel string) bool, progress func(done, total int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(errors.New("the server is stopping")) })()
	defer r.lock(model)()
	p := &meter{tell: progress}
	for _, f := range files {
		p.total += f.Size
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	places := make(chan struct{}, parallel)
	for _, f := range files {
		places <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-places }()
			if err := r.fetch(ctx, f, p); err != nil {
				mu.Lock()
				if first == nil {
					first = status.Errorf(status.Internal, "failed to download %s%s: %w", strings.TrimSuffix(r.text, "/")+"/", f.Path, err)
				}
				mu.Unlock()
				cancel(err)
			}
		})
	}
	wg.Wait()
	if first != nil {
		return first
	}
	if err := context.Cause(ctx); err != nil {
		return status.Errorf(status.Cancelled, "the download of model '%s' was given up: %w", model, err)
	}
	if err := r.clean(model, files, scope); err != nil {
		return status.Errorf(status.Internal, "the copy of model '%s' cannot be brought in line: %w", model, err)
	}
	return nil
}

// fetch brings one file to its place.
func (r *Repository) fetch(ctx context.Context, f repo.File, p *meter) error {
	target := filepath.Join(r.folder, filepath.FromSlash(f.Path))
	object := r.cache.path(r.address, f)
	if same(target, object, f.Size) {
		p.add(f.Size)
		return nil
	}
	key := f
	key.Path = r.address.prefix + f.Path
	unlock := r.lock("object " + filepath.Base(object)) // no model is called so
	defer unlock()
	if err := r.download(ctx, key, object, p); err != nil {
		return err
	}
	return place(object, target)
}

// clean removes what is in scope and was not listed.
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
		return nil // nothing of the model is here
	}
	return err
}
