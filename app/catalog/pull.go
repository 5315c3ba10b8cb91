package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"nereid/app/download"
	"nereid/app/durable"
	"nereid/engine/repo/cloud"
	"nereid/engine/system/proc"
)

const (
	partSuffix = ".part" // of a file that is not complete
	// maxParallel is how many files of a model are pulled at one time.
	maxParallel = 4
	// diskReserve is how many bytes stay free on the disk, for the history and the log.
	diskReserve = 256 << 20
)

func (n *Node) blob(digest string) string { return filepath.Join(n.blobs(), digest) }

// complete reports whether a file is there.
func (n *Node) complete(f File) bool {
	info, err := os.Lstat(n.blob(f.SHA256))
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
}

// pull brings the files of a model that are not there yet.
func (n *Node) pull(ctx context.Context, m *Model) error {
	missing, bytes := map[string]File{}, int64(0)
	for _, f := range m.Files {
		if _, twice := missing[f.SHA256]; !n.complete(f) && !twice {
			missing[f.SHA256] = f
			bytes += f.Size - partSize(n.blob(f.SHA256)+partSuffix)
		}
	}
	if free, ok := proc.FreeBytes(n.blobs()); ok && bytes > 0 && uint64(bytes)+diskReserve > free {
		return fmt.Errorf("%d bytes are missing, and %d are free on the disk, of which %d stay free", bytes, free,
			diskReserve)
	}
	if len(missing) == 0 {
		return nil
	}
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	size := m.size()
	p := &progress{each: map[string]int64{},
		tell: func(missing int64) { n.phase(m.Name, pulling, size-missing, size) }}
	for digest, f := range missing {
		p.left += f.Size
		p.each[digest] = f.Size
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallel)
	for _, f := range missing {
		group.Go(func() error {
			if groupCtx.Err() != nil {
				return nil
			}
			if err := n.pullFile(groupCtx, f, p); err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// progress adds up how many bytes of several files are missing.
type progress struct {
	tell func(missing int64)

	mu   sync.Mutex
	left int64            // guarded by mu, as is each
	each map[string]int64 // by digest
}

func (p *progress) at(f File, have int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += max(f.Size-have, 0) - p.each[f.SHA256]
	p.each[f.SHA256] = max(f.Size-have, 0)
	p.tell(p.left)
}

func partSize(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// pullFile brings a file from the first source that has it. What one source has sent is continued by the next one.
func (n *Node) pullFile(ctx context.Context, f File, p *progress) error {
	part := n.blob(f.SHA256) + partSuffix
	var sources []string
	for _, i := range rand.Perm(len(f.Peers)) { // so that not all nodes ask the same one
		peer := f.Peers[i]
		sources = append(sources, strings.TrimSuffix(peer, "/")+blobPath+f.SHA256)
	}
	peers := len(sources)
	sources = append(sources, f.URLs...)
	if len(sources) == 0 {
		return errWaiting
	}
	defer n.lock(f.SHA256)()
	if n.complete(f) { // for another model
		return nil
	}
	p.at(f, partSize(part))
	var errs []error
	for i, from := range sources {
		err := n.pullFrom(ctx, f, from, i < peers, part, p)
		if err == nil || ctx.Err() != nil {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lock locks a file by its digest.
func (n *Node) lock(digest string) (unlock func()) {
	n.mu.Lock()
	l := n.locks[digest]
	if l == nil {
		l = new(sync.Mutex)
		n.locks[digest] = l
	}
	n.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// pullFrom brings a file from one source. If the source continued what another one has sent, and the whole has another
// digest, the source is asked for the whole.
func (n *Node) pullFrom(ctx context.Context, f File, from string, peer bool, part string, p *progress) error {
	for {
		had := partSize(part)
		if had > f.Size {
			if err := os.Remove(part); err != nil {
				return err
			}
			had = 0
		}
		if had < f.Size || had == 0 {
			if err := n.fetch(ctx, f, from, peer, part, p); err != nil {
				return err
			}
		}
		sum, _, err := download.Digest(part, "", "")
		if err != nil {
			return err
		}
		if sum == f.SHA256 {
			return n.keep(part, n.blob(f.SHA256))
		}
		if err := os.Remove(part); err != nil {
			return err
		}
		if had == 0 {
			return fmt.Errorf("%s sent a file with the SHA-256 %s, not %s of the catalog; nothing was kept",
				plainText(from), sum, f.SHA256)
		}
	}
}

// keep gives a complete file its name. It is read-only, because models and nodes share it.
func (n *Node) keep(part, blob string) error {
	f, err := os.Open(part)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Chmod(0o400), f.Close()); err != nil {
		return err
	}
	return durable.Rename(part, blob)
}

// fetch continues a file from a source.
func (n *Node) fetch(ctx context.Context, f File, from string, peer bool, part string, p *progress) error {
	if f.Size == 0 {
		return os.WriteFile(part, nil, 0o600)
	}
	u, err := url.Parse(from)
	if err != nil {
		return errors.New("a source of the catalog is no URL")
	}
	switch u.Scheme {
	case "http", "https":
	default:
		return cloud.Object(ctx, from, part, f.Size, n.Cloud, func(done, _ int64) { p.at(f, done) })
	}
	if err := download.CheckHost(n.URL, u); err != nil {
		return err
	}
	d := download.Download{URL: from, Shown: plainText(from), Header: http.Header{}, Most: f.Size, SHA256: f.SHA256,
		Client: n.client, Progress: func(_ string, have, _ int64) { p.at(f, have) }}
	token, err := n.token()
	switch {
	case err != nil:
		return err
	case token != "" && peer:
		d.Header.Set("Authorization", "Bearer "+peerToken(token, f.SHA256))
	case token != "" && u.Scheme == n.URL.Scheme && u.Host == n.URL.Host:
		d.Header.Set("Authorization", "Bearer "+token)
	}
	return d.To(ctx, part)
}

// plainText is a URL without what may be a secret.
func plainText(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a source"
	}
	return download.Plain(u)
}

// token reads the token of the catalog, which may change; "" if there is none.
func (n *Node) token() (string, error) {
	if n.TokenFile == "" {
		return "", nil
	}
	f, err := os.Open(n.TokenFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return strings.TrimSpace(string(b)), err
}

// prune removes the files that no desired model has. Models and the trash have links of their own.
func (n *Node) prune(d Desired) {
	keep := map[string]bool{}
	for _, m := range d.Models {
		for _, f := range m.Files {
			keep[f.SHA256] = true
		}
	}
	entries, err := os.ReadDir(n.blobs())
	for _, e := range entries {
		if !keep[strings.TrimSuffix(e.Name(), partSuffix)] {
			err = errors.Join(err, os.Remove(n.blob(e.Name())))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.Log.Warn("files that the catalog does not name any more cannot be removed", "err", err)
	}
}
