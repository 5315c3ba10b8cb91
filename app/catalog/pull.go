package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// pull brings the files of a model that are not there yet.
func (n *Node) pull(ctx context.Context, m *Model) error {
	missing, bytes := map[string]File{}, int64(0)
	for _, f := range m.Files {
		if _, twice := missing[f.SHA256]; !n.files.has(f) && !twice {
			missing[f.SHA256] = f
			bytes += f.Size - partSize(n.files.part(f.SHA256))
		}
	}
	if free, ok := proc.FreeBytes(n.files.dir); ok && bytes > 0 && uint64(bytes)+diskReserve > free {
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
	part := n.files.part(f.SHA256)
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
	defer n.files.lock(f.SHA256)()
	if n.files.has(f) { // for another model
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
			return keep(part, n.files.path(f.SHA256))
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
