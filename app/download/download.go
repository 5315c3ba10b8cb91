// Package download reads URLs into files, and goes on where a connection was cut. It starts no goroutines.
package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

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

// Plain is a URL without what may be a secret.
func Plain(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery, shown.Fragment = nil, "", ""
	return shown.String()
}

// Digest returns the SHA-256 and the size of a file. If want is not empty, another SHA-256 is an error, which names
// from as the place where want was given.
func Digest(file, want, from string) (sum string, size int64, err error) {
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
	if want != "" && !strings.EqualFold(want, sum) {
		return "", 0, fmt.Errorf("%s has the SHA-256 %s, not %s of %s; nothing was kept", filepath.Base(file), sum,
			want, from)
	}
	return sum, size, nil
}

// NewClient returns a client that follows redirects to https, or to http on this machine. It follows no redirect from
// another machine to this one.
func NewClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableCompression: true, ResponseHeaderTimeout: stall,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 10 {
				return errors.New("more than 10 redirections")
			}
			if r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
				r.Header.Del("Authorization") // package net/http would send it to subdomains and other ports
			}
			if err := CheckReferral(via[len(via)-1].URL, r.URL); err != nil {
				return permanent{err}
			}
			return nil
		},
	}
}

// CheckReferral checks a URL that the server of another URL names. Other machines may not name this one: its services
// may trust requests that come from here.
func CheckReferral(from, to *url.URL) error {
	if err := CheckHost(from, to); err != nil {
		return err
	}
	return CheckScheme(to)
}

// CheckHost is CheckReferral without the rule about TLS.
func CheckHost(from, to *url.URL) error {
	if isHere(to) && !isHere(from) {
		return fmt.Errorf("%s leads to %s, which is this machine", from.Host, to.Host)
	}
	return nil
}

func isHere(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// CheckScheme wants https, or http to this machine.
func CheckScheme(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && isHere(u) {
		return nil
	}
	return fmt.Errorf("%s://%s is not https, which is needed for other machines", u.Scheme, u.Host)
}

// Download reads one URL into a file, and goes on where a connection was cut.
type Download struct {
	URL, Shown string // Shown is without a password
	Header     http.Header
	Most       int64  // bytes
	More       string // the end of the error of a file that has more
	Client     *http.Client
	// Progress, if not nil, is called with the bytes of a file that are there and those of the whole file. The latter
	// is negative if it is not known.
	Progress func(file string, have, whole int64)
	// SHA256, if not empty, is the digest of the file, which the caller checks. The file is then continued from any
	// URL, and may come from other machines without TLS.
	SHA256 string
	// Have is how many bytes there are.
	Have int64

	state string // the path of the kept state
	kept  kept
}

// kept is what the file FILE.state says about the beginning of a download.
type kept struct {
	URL   string `json:"url"`   // SHA-256: it may have a secret
	Tag   string `json:"tag"`   // ETag or Last-Modified
	Whole int64  `json:"whole"` // bytes; -1: not known
}

// permanent is an error that another try does not cure.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// To downloads into a file. It goes on with what an earlier command left there. Whether that is a *CutError says
// whether the file is kept.
func (d *Download) To(ctx context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := d.resume(f); err != nil {
		return err
	}
	for failed, pause := 0, firstPause; ; {
		before := d.Have
		err := d.once(ctx, f)
		if err == nil {
			return f.Close()
		}
		if d.Have > before {
			failed, pause = 0, firstPause
		}
		failed++
		var final permanent
		if ctx.Err() != nil || errors.As(err, &final) {
			return fmt.Errorf("%s: %w", d.Shown, err)
		}
		if failed == tries {
			err = fmt.Errorf("%s: %w", d.Shown, err)
			if d.Have > 0 && d.kept.Tag != "" {
				err = &CutError{err, d.Have}
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// resume finds out whether the file is the beginning of this download.
func (d *Download) resume(f *os.File) error {
	if d.SHA256 != "" {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		d.Have, d.kept.Whole = info.Size(), -1
		return nil
	}
	sum := sha256.Sum256([]byte(d.URL))
	d.state, d.kept = f.Name()+".state", kept{URL: hex.EncodeToString(sum[:]), Whole: -1}
	var old kept
	b, err := os.ReadFile(d.state)
	if err != nil || json.Unmarshal(b, &old) != nil || old.URL != d.kept.URL || old.Tag == "" {
		return f.Truncate(0)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d.kept, d.Have = old, info.Size()
	if d.Have >= old.Whole && old.Whole >= 0 { // a request for the last byte asks whether the file is still that one
		d.Have = max(0, old.Whole-1)
	}
	return nil
}

// once sends one request and appends what it brings.
func (d *Download) once(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, nil)
	if err == nil && (d.SHA256 == "" || req.URL.Scheme != "http") {
		err = CheckScheme(req.URL)
	}
	if err != nil {
		return permanent{err}
	}
	maps.Copy(req.Header, d.Header)
	if d.Have > 0 && (d.kept.Tag != "" || d.SHA256 != "") {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.Have))
	}
	if d.Have > 0 && d.kept.Tag != "" {
		req.Header.Set("If-Range", d.kept.Tag)
	}
	resp, err := d.Client.Do(req)
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
	body := &progress{resp.Body, d, watch, d.Have}
	n, err := io.Copy(io.NewOffsetWriter(f, d.Have), io.LimitReader(body, d.Most-d.Have+1))
	d.Have += n
	switch {
	case d.Have > d.Most:
		return permanent{fmt.Errorf("it has more than %d bytes%s", d.Most, d.More)}
	case err != nil && isDisk(err):
		return permanent{err}
	case err != nil:
		return err
	case d.kept.Whole >= 0 && d.Have != d.kept.Whole:
		return fmt.Errorf("the connection was cut after %d of %d bytes", d.Have, d.kept.Whole)
	}
	return nil
}

// begin looks at the header of an answer: whether it goes on where the file ends, and how long the whole is.
func (d *Download) begin(resp *http.Response, f *os.File) error {
	switch {
	case resp.StatusCode == http.StatusPartialContent && d.Have > 0:
		if !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.Have)) {
			return permanent{fmt.Errorf("the server answers the range %q", resp.Header.Get("Content-Range"))}
		}
		return nil
	case resp.StatusCode == http.StatusOK:
		if err := d.restart(resp, f); err != nil {
			return permanent{err}
		}
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("the server answers %s", resp.Status)
	default:
		return permanent{&StatusError{resp.StatusCode, resp.Status, resp.Header}}
	}
	if d.kept.Whole > d.Most {
		return permanent{fmt.Errorf("it has %d bytes, which are more than %d%s", d.kept.Whole, d.Most, d.More)}
	}
	if free, ok := proc.FreeBytes(filepath.Dir(f.Name())); ok && d.kept.Whole > 0 && uint64(d.kept.Whole) > free {
		return permanent{fmt.Errorf("it has %d bytes, and only %d are free on the disk", d.kept.Whole, free)}
	}
	return nil
}

// restart empties the file for a whole answer.
func (d *Download) restart(resp *http.Response, f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	d.Have, d.kept.Whole = 0, resp.ContentLength
	if d.kept.Tag = resp.Header.Get("ETag"); d.kept.Tag == "" || strings.HasPrefix(d.kept.Tag, "W/") {
		d.kept.Tag = resp.Header.Get("Last-Modified")
	}
	if d.SHA256 != "" {
		return nil
	}
	b, err := json.Marshal(d.kept)
	if err != nil {
		return err
	}
	return os.WriteFile(d.state, b, 0o600)
}

// StatusError is an answer that is no file.
type StatusError struct {
	Code   int
	Status string
	Header http.Header
}

func (e *StatusError) Error() string { return "the server answers " + e.Status }

func isDisk(err error) bool {
	_, ok := errors.AsType[*os.PathError](err)
	return ok
}

// progress is a body that must not stall.
type progress struct {
	io.Reader
	d     *Download
	watch *time.Timer
	have  int64
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.watch.Reset(stall)
	p.have += int64(n)
	if p.d.Progress != nil {
		p.d.Progress(path.Base(p.d.Shown), p.have, p.d.kept.Whole)
	}
	return n, err
}

// CutError is the error of a download that another command can go on with.
type CutError struct {
	err  error
	have int64
}

func (e *CutError) Error() string {
	return fmt.Sprintf("%v; the first %d bytes are kept: the same command goes on there", e.err, e.have)
}

func (e *CutError) Unwrap() error { return e.err }
