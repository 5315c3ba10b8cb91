package console

import (
	"cmp"
	"fmt"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/app/history"
)

// configScript sets the URL of the interface for the page: its own origin. The window serves another script.
func configScript(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = w.Write([]byte("window.__base = \"\";\n")) // fails only if the client has gone
	return nil
}

// kioskScript is configScript for the public page.
func kioskScript(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = w.Write([]byte("window.__base = \"\";\nwindow.__kiosk = true;\n")) // fails only if the client has gone
	return nil
}

// pageHandler serves the embedded page, or says how to build it.
func pageHandler(page fs.FS, log *slog.Logger) http.Handler {
	if _, err := fs.Stat(page, "index.html"); err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "Nereid runs, but this build has no page: it was compiled without the frontend.\n"+
				"Run \"make build\" (needs Node), or use the HTTP interface below /api/.")
		})
	}
	files := &pageFiles{page: page, plain: http.FileServerFS(page), packed: map[string][]byte{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			rest.WriteError(w, r, rest.Errorf(api.CodeNotFound, "no such route"), log)
			return
		}
		// Built files have a hash in their name. The page itself changes with the program.
		if strings.HasPrefix(r.URL.Path, "/assets/") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		} else {
			w.Header().Set("Cache-Control", "no-cache")
		}
		files.ServeHTTP(w, r)
	})
}

// pageFiles serves the files of the page. Each is compressed once, at its first use.
type pageFiles struct {
	page  fs.FS
	plain http.Handler

	mu     sync.Mutex
	packed map[string][]byte // by file; nil if it is not worth it; guarded by mu
}

// ServeHTTP serves a file, compressed if the client takes that.
func (p *pageFiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), "index.html")
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" || r.URL.Path == "/index.html" || r.Header.Get("Range") != "" || !rest.AcceptsGzip(r) {
		p.plain.ServeHTTP(w, r)
		return
	}
	packed := p.compressed(name)
	if packed == nil {
		p.plain.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Length", strconv.Itoa(len(packed)))
	_, _ = w.Write(packed) // fails only if the client has gone
}

// compressed returns a file compressed; nil if there is no such file, or if it is hardly smaller then.
func (p *pageFiles) compressed(name string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if packed, known := p.packed[name]; known {
		return packed
	}
	data, err := fs.ReadFile(p.page, name)
	if err != nil {
		return nil // what clients ask for in vain is not remembered
	}
	packed, err := rest.Gzip(data, gzip.BestCompression)
	if err != nil || len(packed) > len(data)*9/10 {
		packed = nil
	}
	p.packed[name] = packed
	return packed
}

// clientErrors logs errors that the page reports, so that a blank page has a trace.
type clientErrors struct {
	recorder *history.Recorder
	log      *slog.Logger

	mu     sync.Mutex
	minute time.Time // when the present minute began; guarded by mu, as is count
	count  int
}

func (c *clientErrors) endpoint() rest.Endpoint {
	return rest.Raw(c.report).Reads("ClientError", 64<<10).With(http.StatusNoContent)
}

func (c *clientErrors) report(w http.ResponseWriter, r *http.Request) error {
	var e api.ClientError
	if err := rest.Read(r, &e); err != nil {
		return err
	}
	if c.allow() {
		c.log.Warn("the page reports an error", "message", rest.Clip(e.Message), "page", rest.Clip(e.Page),
			"source", rest.Clip(e.Source), "line", e.Line, "column", e.Column, "stack", rest.Clip(e.Stack),
			"browser", rest.Clip(e.UserAgent))
		c.recorder.Event(history.Event{Kind: history.ClientError, Text: rest.Clip(e.Message)})
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// allow reports whether another error may be logged: at most ten a minute.
func (c *clientErrors) allow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.minute) >= time.Minute {
		c.minute, c.count = now, 0
	}
	c.count++
	return c.count <= 10
}
