// Package newversion tells whether there is a newer version of the program. It reads a small text that the operator
// names, and nothing else: it installs and downloads no program. It starts no goroutines.
package newversion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/mod/semver"

	"nereid/app/download"
	"nereid/engine/clock"
)

const (
	maxText = 1 << 10 // bytes
	every   = 24 * time.Hour
	limit   = 10 * time.Second // of one request
)

// Release is what the text says.
type Release struct {
	Version string // such as 0.2.0, without v
	Link    string // for people; "": none
}

// Source is where the text is: in a file, or at a URL. The zero value is nowhere.
type Source struct {
	path string
	url  *url.URL
}

// On reports whether there is a source.
func (s Source) On() bool { return s.path != "" || s.url != nil }

func (s Source) String() string {
	if s.url != nil {
		return s.url.String()
	}
	return s.path
}

// ParseSource reads the value of an option. A relative path begins at the folder of the program. A URL needs TLS,
// unless it is of this machine.
func ParseSource(value string) (Source, error) {
	if !strings.Contains(value, "://") {
		if value == "" || filepath.IsAbs(value) {
			return Source{path: value}, nil
		}
		program, err := os.Executable()
		if err != nil {
			return Source{}, fmt.Errorf("the folder of the program is not known: %w", err)
		}
		return Source{path: filepath.Join(filepath.Dir(program), value)}, nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Source{}, errors.New("it is no path, and no URL such as https://example.com/version.txt")
	}
	return Source{url: u}, download.CheckScheme(u)
}

// read returns what the source says.
func (s Source) read(ctx context.Context) (Release, error) {
	open := s.request
	if s.url == nil {
		open = s.file
	}
	r, err := open(ctx)
	if err != nil {
		return Release{}, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return Release{}, err
	}
	return parse(text)
}

func (s Source) file(context.Context) (io.ReadCloser, error) {
	// The open of a named pipe would wait for a writer.
	if info, err := os.Stat(s.path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return os.Open(s.path)
}

// request asks the URL. The time limit holds until the body is closed.
func (s Source) request(ctx context.Context) (io.ReadCloser, error) {
	client := download.NewClient()
	follow := client.CheckRedirect
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != s.url.Scheme {
			return fmt.Errorf("a redirection leads from %s to %s", s.url.Scheme, r.URL.Scheme)
		}
		return follow(r, via)
	}
	client.Timeout = limit
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Close = true // the next request is tomorrow
	resp, err := client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err // e has the URL, which after a redirection may have a secret
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, errors.New("the server answers " + resp.Status)
	}
	return resp.Body, nil
}

// parse reads a text: a version, and on the second line a URL, which may be missing. Further lines are ignored.
func parse(text []byte) (Release, error) {
	if len(text) > maxText {
		return Release{}, fmt.Errorf("the text has more than %d bytes", maxText)
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	second, _, _ := strings.Cut(rest, "\n")
	version, link := strings.TrimSpace(first), strings.TrimSpace(second)
	if canonical(version) == "" {
		return Release{}, errors.New("the first line is no version such as 0.2.0")
	}
	r := Release{Version: strings.TrimPrefix(version, "v"), Link: link}
	if link == "" {
		return r, nil
	}
	u, err := url.Parse(link)
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.ContainsFunc(link, odd) {
		return Release{}, errors.New("the second line is no URL such as https://example.com/releases")
	}
	return r, nil
}

// canonical returns a version with three numbers in the form of package semver, "" if it is none.
func canonical(version string) string {
	v := "v" + strings.TrimPrefix(version, "v")
	if semver.Canonical(v)+semver.Build(v) != v {
		return ""
	}
	return v
}

// describedCommit matches what git describe adds for a commit that has no tag, or that was changed.
var describedCommit = regexp.MustCompile(`-\d+-g[0-9a-f]+(-dirty)?$|-dirty$`)

// Watch reads the source when it starts and then once a day.
type Watch struct {
	source Source
	own    string // version
	log    *slog.Logger
	newer  atomic.Pointer[Release] // nil: none is known
	logged string                  // the last version that was logged
}

// New makes a Watch of a program of version own.
func New(source Source, own string, log *slog.Logger) *Watch {
	return &Watch{source: source, own: own, log: log}
}

// Newer returns the release that is newer than the program, the zero value if none is known. It is safe for concurrent
// use.
func (w *Watch) Newer() Release {
	if r := w.newer.Load(); r != nil {
		return *r
	}
	return Release{}
}

// Run looks until ctx ends. Without a source, and in a program whose own version is no release, it does nothing.
func (w *Watch) Run(ctx context.Context) error {
	if !w.source.On() {
		return nil
	}
	if canonical(w.own) == "" || describedCommit.MatchString(w.own) {
		w.log.Warn("new versions are not looked for: this build is no release, and cannot be compared", "own", w.own)
		return nil
	}
	for w.look(ctx); clock.Sleep(ctx, every); {
		w.look(ctx)
	}
	return nil
}

// look reads the source once. After an error it keeps what it knew.
func (w *Watch) look(ctx context.Context) {
	r, err := w.source.read(ctx)
	switch {
	case ctx.Err() != nil:
	case w.source.url == nil && errors.Is(err, fs.ErrNotExist):
		w.log.Info("there is no file about a new version", "path", w.source.path)
		w.newer.Store(nil)
	case err != nil:
		w.log.Warn("the newest version is not known", "from", w.source.String(), "err", err)
	case semver.Compare(canonical(r.Version), canonical(w.own)) <= 0:
		w.newer.Store(nil)
	default:
		w.newer.Store(&r)
		if w.logged != r.Version {
			w.logged = r.Version
			w.log.Info("there is a new version of Nereid", "version", r.Version, "link", r.Link, "own", w.own)
		}
	}
}
