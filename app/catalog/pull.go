package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"nereid/app/download"
	"nereid/engine/repo/cloud"
	"nereid/engine/system/proc"
)

const (
	// maxParallel is how many files of a model are pulled at one time.
	maxParallel = 4
	// diskReserve is how many bytes stay free on the disk, for the history and the log.
	diskReserve = 256 << 20
)

// puller brings files from their sources.
type puller struct {
	files    *files
	platform *platform
	cloud    cloud.Options // for files in a cloud's storage
	slots    chan struct{} // has an element for each model that is being pulled
}

// pull brings the files of a model that are not there yet. tell is called with the bytes that are missing.
func (pl *puller) pull(ctx context.Context, m *Model, tell func(missing int64)) error {
	missing, bytes := map[string]File{}, int64(0)
	for _, f := range m.Files {
		if _, twice := missing[f.SHA256]; !pl.files.has(f) && !twice {
			missing[f.SHA256] = f
			bytes += f.Size - partSize(pl.files.part(f.SHA256))
		}
	}
	if free, ok := proc.FreeBytes(pl.files.dir); ok && bytes > 0 && uint64(bytes)+diskReserve > free {
		return fmt.Errorf("%d bytes are missing, and %d are free on the disk, of which %d stay free", bytes, free,
			diskReserve)
	}
	if len(missing) == 0 {
		return nil
	}
	select {
	case pl.slots <- struct{}{}:
		defer func() { <-pl.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p := &progress{each: map[string]int64{}, tell: tell}
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
			if err := pl.pullFile(groupCtx, f, p); err != nil {
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
func (pl *puller) pullFile(ctx context.Context, f File, p *progress) error {
	part := pl.files.part(f.SHA256)
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
	defer pl.files.lock(f.SHA256)()
	if pl.files.has(f) { // for another model
		return nil
	}
	p.at(f, partSize(part))
	var errs []error
	for i, from := range sources {
		err := pl.pullFrom(ctx, f, from, i < peers, part, p)
		if err == nil || ctx.Err() != nil {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// pullFrom brings a file from one source. If the source continued what another one has sent, and the whole has another
// digest, the source is asked for the whole.
func (pl *puller) pullFrom(ctx context.Context, f File, from string, peer bool, part string, p *progress) error {
	for {
		had := partSize(part)
		if had > f.Size {
			if err := os.Remove(part); err != nil {
				return err
			}
			had = 0
		}
		if had < f.Size || had == 0 {
			if err := pl.fetch(ctx, f, from, peer, part, p); err != nil {
				return err
			}
		}
		sum, _, err := download.Digest(part, "", "")
		if err != nil {
			return err
		}
		if sum == f.SHA256 {
			return keep(part, pl.files.path(f.SHA256))
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

// fetch continues a file from a source.
func (pl *puller) fetch(ctx context.Context, f File, from string, peer bool, part string, p *progress) error {
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
		return cloud.Object(ctx, from, part, f.Size, pl.cloud, func(done, _ int64) { p.at(f, done) })
	}
	if err := download.CheckHost(pl.platform.url, u); err != nil {
		return err
	}
	d := download.Download{URL: from, Shown: plainText(from), Header: http.Header{}, Most: f.Size, SHA256: f.SHA256,
		Client: pl.platform.client, Progress: func(_ string, have, _ int64) { p.at(f, have) }}
	token, err := pl.platform.token()
	switch {
	case err != nil:
		return err
	case token != "" && peer:
		d.Header.Set("Authorization", "Bearer "+peerToken(token, f.SHA256))
	case token != "" && u.Scheme == pl.platform.url.Scheme && u.Host == pl.platform.url.Host:
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
