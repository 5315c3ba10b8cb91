package get

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"nereid/app/command"
	"nereid/engine/system/proc"
)

const (
	// tries is how often a download is continued without one new byte.
	tries = 6
	// firstPause is the pause before the first of them. Each further one is twice as long.
	firstPause = 100 * time.Millisecond
	// stall is how long a server may send nothing.
	stall = time.Minute
)

func (o *options) fromURL(ctx context.Context, e *command.Env, work, source string) ([]staged, error) {
	u, err := url.Parse(source)
	if err != nil {
		return nil, errors.New("the source is no URL")
	}
	name := path.Base(u.Path)
	if name == "/" || name == "." {
		return nil, fmt.Errorf("the URL of %s names no file", u.Host)
	}
	dir := filepath.Join(work, "download")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, filepath.Base(name))
	u.User, u.RawQuery, u.Fragment = nil, "", "" // they may hold secrets
	d := download{url: source, shown: u.String(), most: int64(o.most) << 20, client: newClient(), stderr: e.Stderr}
	if err := d.to(ctx, file); err != nil {
		return nil, err
	}
	sum, size, err := o.checkDigest(file)
	if err != nil {
		return nil, err
	}
	s, err := o.arrange(filepath.Join(work, "model"), file, provenance{Source: u.String(), From: u.String(),
		SHA256: sum, Bytes: size})
	return []staged{s}, err
}

// checkDigest returns the SHA-256 and the size of a file, and compares the former with --sha256.
func (o *options) checkDigest(file string) (sum string, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	sum = hex.EncodeToString(h.Sum(nil))
	if o.sha256 != "" && !strings.EqualFold(o.sha256, sum) {
		return "", 0, fmt.Errorf("the download has the SHA-256 %s, not %s of --sha256; nothing was kept", sum, o.sha256)
	}
	return sum, size, nil
}

// newClient returns a client that speaks http to this machine only.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableCompression: true, ResponseHeaderTimeout: stall,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 10 {
				return errors.New("more than 10 redirections")
			}
			return checkScheme(r.URL)
		},
	}
}

func checkScheme(u *url.URL) error {
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%s://%s is not https, which is needed for other machines", u.Scheme, u.Host)
}

// download reads one URL into a file, and goes on where a connection was cut.
type download struct {
	url, shown string // shown is without a password
	most       int64
	client     *http.Client
	stderr     io.Writer

	have, whole int64  // bytes; whole is -1 while it is not known
	tag         string // ETag or Last-Modified of the file that have belongs to
}

// permanent is an error that another try does not cure.
type permanent struct{ error }

func (d *download) to(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	d.whole = -1
	for failed, pause := 0, firstPause; ; {
		before := d.have
		err := d.once(ctx, f)
		if err == nil {
			return f.Close()
		}
		if d.have > before {
			failed, pause = 0, firstPause
		}
		failed++
		var final permanent
		if ctx.Err() != nil || errors.As(err, &final) || failed == tries {
			return fmt.Errorf("%s: %w", d.shown, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// once sends one request and appends what it brings.
func (d *download) once(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err == nil {
		err = checkScheme(req.URL)
	}
	if err != nil {
		return permanent{err}
	}
	if d.have > 0 && d.tag != "" {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		req.Header.Set("If-Range", d.tag)
	}
	resp, err := d.client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err // e has the URL
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := d.begin(resp, f); err != nil {
		return err
	}
	watch := time.AfterFunc(stall, cancel)
	defer watch.Stop()
	n, err := io.Copy(io.NewOffsetWriter(f, d.have), io.LimitReader(progress{resp.Body, watch}, d.most-d.have+1))
	d.have += n
	switch {
	case d.have > d.most:
		return permanent{fmt.Errorf("it has more than %d bytes; --max-size allows more", d.most)}
	case err != nil && isDisk(err):
		return permanent{err}
	case err != nil:
		return err
	case d.whole >= 0 && d.have != d.whole:
		return fmt.Errorf("the connection was cut after %d of %d bytes", d.have, d.whole)
	}
	return nil
}

// begin looks at the header of an answer: whether it goes on where the file ends, and how long the whole is.
func (d *download) begin(resp *http.Response, f *os.File) error {
	switch {
	case resp.StatusCode == http.StatusPartialContent && d.have > 0:
		if !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.have)) {
			return permanent{fmt.Errorf("the server answers the range %q", resp.Header.Get("Content-Range"))}
		}
		return nil
	case resp.StatusCode == http.StatusOK:
		if err := f.Truncate(0); err != nil {
			return permanent{err}
		}
		d.have, d.whole = 0, resp.ContentLength
		if d.tag = resp.Header.Get("ETag"); d.tag == "" || strings.HasPrefix(d.tag, "W/") {
			d.tag = resp.Header.Get("Last-Modified")
		}
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("the server answers %s", resp.Status)
	default:
		return permanent{fmt.Errorf("the server answers %s", resp.Status)}
	}
	if d.whole > d.most {
		return permanent{fmt.Errorf("it has %d bytes; --max-size allows more than %d", d.whole, d.most)}
	}
	if free, ok := proc.FreeBytes(filepath.Dir(f.Name())); ok && d.whole > 0 && uint64(d.whole) > free {
		return permanent{fmt.Errorf("it has %d bytes, and only %d are free on the disk", d.whole, free)}
	}
	return nil
}

func isDisk(err error) bool {
	_, ok := errors.AsType[*os.PathError](err)
	return ok
}

// progress is a body that must not stall.
type progress struct {
	io.Reader
	watch *time.Timer
}

func (p progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.watch.Reset(stall)
	return n, err
}
