package get

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

	"nereid/app/console/imports/staging"
	"nereid/engine/backend/onnxruntime/onnxfile"
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

func (o *getter) fromURL(ctx context.Context) ([]staged, error) {
	u, err := url.Parse(o.source)
	if err != nil {
		return nil, errors.New("the source is no URL")
	}
	name := path.Base(u.Path)
	if name == "/" || name == "." || strings.HasPrefix(name, ".") {
		return nil, fmt.Errorf("the URL of %s names no file", u.Host)
	}
	client := newClient()
	d := download{url: o.source, shown: plain(u), most: o.bytes(), client: client, meter: o.meter}
	file := filepath.Join(o.work.downloads(), name)
	if err := d.to(ctx, file); err != nil {
		return nil, err
	}
	sum, size, err := digest(file, o.sha256, "--sha256")
	if err != nil {
		return nil, err
	}
	beside, err := externals(file)
	if err != nil {
		return nil, err
	}
	room := o.bytes() - size
	for _, data := range beside {
		at := *u
		at.Path, at.RawPath = path.Join(path.Dir(u.Path), data), ""
		d := download{url: at.String(), shown: plain(&at), most: room, client: client, meter: o.meter}
		if err := d.to(ctx, filepath.Join(filepath.Dir(file), filepath.FromSlash(data))); err != nil {
			return nil, fmt.Errorf("%s keeps weights in %s: %w", name, data, err)
		}
		room -= d.have
	}
	return o.arrange(filepath.Join(o.work.models(), "0"), file, beside, provenance{Source: plain(u), From: plain(u),
		SHA256: sum, Bytes: size})
}

// plain is a URL without what may be a secret.
func plain(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery, shown.Fragment = nil, "", ""
	return shown.String()
}

// externals returns the files with weights that an ONNX file names, by their paths beside it. Other files, and those
// that are no ONNX files, have none: the server says what is wrong with them.
func externals(file string) ([]string, error) {
	if !strings.EqualFold(filepath.Ext(file), ".onnx") {
		return nil, nil
	}
	found, err := onnxfile.Locations(file)
	if errors.Is(err, onnxfile.ErrMalformed) {
		return nil, nil
	}
	for _, name := range found {
		clean, cerr := staging.CleanPath(name)
		if cerr != nil || clean != name || strings.EqualFold(name, filepath.Base(file)) {
			return nil, fmt.Errorf("%s keeps weights in %q, which is no file beside it; the model is not taken",
				filepath.Base(file), name)
		}
	}
	return found, err
}

// digest returns the SHA-256 and the size of a file. If want is not empty, the former must be it; from names where that
// was said.
func digest(file, want, from string) (sum string, size int64, err error) {
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

// newClient returns a client that speaks http to this machine only, and not because another machine says so.
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
			if r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
				r.Header.Del("Authorization") // package net/http would send it to subdomains and other ports
			}
			if err := checkReferral(via[len(via)-1].URL, r.URL); err != nil {
				return permanent{err}
			}
			return nil
		},
	}
}

// checkReferral checks a URL that the server of another URL names. Other machines may not name this one: its services
// may trust requests that come from here.
func checkReferral(from, to *url.URL) error {
	if isHere(to) && !isHere(from) {
		return fmt.Errorf("%s leads to %s, which is this machine", from.Host, to.Host)
	}
	return checkScheme(to)
}

func isHere(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

func checkScheme(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && isHere(u) {
		return nil
	}
	return fmt.Errorf("%s://%s is not https, which is needed for other machines", u.Scheme, u.Host)
}

// download reads one URL into a file, and goes on where a connection was cut.
type download struct {
	url, shown string // shown is without a password
	header     http.Header
	most       int64
	client     *http.Client
	meter      *meter

	state string // the path of the kept state
	have  int64  // bytes
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

// to downloads into a file. It goes on with what an earlier command left there. Whether that is a *cutError says
// whether the file is kept.
func (d *download) to(ctx context.Context, path string) error {
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
		if ctx.Err() != nil || errors.As(err, &final) {
			return fmt.Errorf("%s: %w", d.shown, err)
		}
		if failed == tries {
			err = fmt.Errorf("%s: %w", d.shown, err)
			if d.have > 0 && d.kept.Tag != "" {
				err = &cutError{err, d.have}
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
func (d *download) resume(f *os.File) error {
	sum := sha256.Sum256([]byte(d.url))
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
	d.kept, d.have = old, info.Size()
	if d.have >= old.Whole && old.Whole >= 0 { // a request for the last byte asks whether the file is still that one
		d.have = max(0, old.Whole-1)
	}
	return nil
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
	maps.Copy(req.Header, d.header)
	if d.have > 0 && d.kept.Tag != "" {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		req.Header.Set("If-Range", d.kept.Tag)
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
	body := &progress{resp.Body, d, watch, d.have}
	n, err := io.Copy(io.NewOffsetWriter(f, d.have), io.LimitReader(body, d.most-d.have+1))
	d.have += n
	switch {
	case d.have > d.most:
		return permanent{fmt.Errorf("it has more than %d bytes; --max-size allows more", d.most)}
	case err != nil && isDisk(err):
		return permanent{err}
	case err != nil:
		return err
	case d.kept.Whole >= 0 && d.have != d.kept.Whole:
		return fmt.Errorf("the connection was cut after %d of %d bytes", d.have, d.kept.Whole)
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
		if err := d.restart(resp, f); err != nil {
			return permanent{err}
		}
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("the server answers %s", resp.Status)
	default:
		return permanent{&statusError{resp.StatusCode, resp.Status, resp.Header}}
	}
	if d.kept.Whole > d.most {
		return permanent{fmt.Errorf("it has %d bytes; --max-size allows more than %d", d.kept.Whole, d.most)}
	}
	if free, ok := proc.FreeBytes(filepath.Dir(f.Name())); ok && d.kept.Whole > 0 && uint64(d.kept.Whole) > free {
		return permanent{fmt.Errorf("it has %d bytes, and only %d are free on the disk", d.kept.Whole, free)}
	}
	return nil
}

// restart empties the file for a whole answer.
func (d *download) restart(resp *http.Response, f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	d.have, d.kept.Whole = 0, resp.ContentLength
	if d.kept.Tag = resp.Header.Get("ETag"); d.kept.Tag == "" || strings.HasPrefix(d.kept.Tag, "W/") {
		d.kept.Tag = resp.Header.Get("Last-Modified")
	}
	b, err := json.Marshal(d.kept)
	if err != nil {
		return err
	}
	return os.WriteFile(d.state, b, 0o600)
}

// statusError is an answer that is no file.
type statusError struct {
	code   int
	status string
	header http.Header
}

func (e *statusError) Error() string { return "the server answers " + e.status }

func isDisk(err error) bool {
	_, ok := errors.AsType[*os.PathError](err)
	return ok
}

// progress is a body that must not stall.
type progress struct {
	io.Reader
	d     *download
	watch *time.Timer
	have  int64
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.watch.Reset(stall)
	p.have += int64(n)
	p.d.meter.at(path.Base(p.d.shown), p.have, p.d.kept.Whole)
	return n, err
}
