// Package downloads fetches models from a hub, a registry, a package index or a URL for the page, which then imports
// them.
//
// Each download has one goroutine, which ends when it is cancelled or the console closes.
package downloads

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/app/console/tasks"
)

// Fetcher fetches models.
type Fetcher interface {
	// Gallery returns models that are worth a try.
	Gallery() ([]api.GalleryModel, error)
	// Fetch makes model folders of a source in a folder, which is empty. It tells progress of the bytes of a file, with
	// -1 for a whole that is not known.
	Fetch(ctx context.Context, folder, source string, progress func(file string, have, whole int64)) (
		[]api.DownloadedModel, error)
}

// maxRunning is how many downloads run at one time.
const maxRunning = 4

// Handler serves the routes of downloads. Its methods are safe for concurrent use.
type Handler struct {
	Fetcher Fetcher // nil: nothing can be fetched
	Folder  string  // of the downloads; it belongs to the Handler
	Tasks   *tasks.Group
	Log     *slog.Logger

	mu  sync.Mutex
	all []*download // oldest first; guarded by mu, as are their views
}

type download struct {
	view   api.Download
	cancel context.CancelFunc
}

// Gallery returns the gallery.
func (h *Handler) Gallery(*http.Request) (out api.Gallery, err error) {
	if h.Fetcher != nil {
		out.Models, err = h.Fetcher.Gallery()
	}
	return out, err
}

// Start starts a download. It removes those that have ended.
func (h *Handler) Start(_ *http.Request, req *api.StartDownload) (out api.Download, err error) {
	source := strings.TrimSpace(req.Source)
	if h.Fetcher == nil {
		return out, rest.Errorf(api.CodeUnsupported, "this server fetches no models")
	}
	if source == "" {
		return out, rest.Errorf(api.CodeInvalid,
			"name a source, such as hf:owner/name, pypi:package or https://host/file")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range slices.Clone(h.all) {
		if d.view.State != api.DownloadRunning {
			h.remove(d)
		}
	}
	if len(h.all) >= maxRunning {
		return out, rest.Errorf(api.CodeConflict, "%d downloads are running; wait for one, or cancel it", maxRunning)
	}
	d := &download{view: api.Download{ID: rand.Text(), Source: source, State: api.DownloadRunning, WholeBytes: -1}}
	if err := os.MkdirAll(h.folder(d), 0o700); err != nil {
		return out, err
	}
	h.all = append(h.all, d)
	d.cancel = h.Tasks.Start(func(ctx context.Context) { h.run(ctx, d, source) })
	return d.view, nil
}

func (h *Handler) folder(d *download) string { return filepath.Join(h.Folder, d.view.ID) }

// run fetches a source.
func (h *Handler) run(ctx context.Context, d *download, source string) {
	models, err := h.Fetcher.Fetch(ctx, h.folder(d), source, func(file string, have, whole int64) {
		h.mu.Lock()
		defer h.mu.Unlock()
		d.view.File, d.view.HaveBytes, d.view.WholeBytes = file, have, whole
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	d.view.State, d.view.Models = api.DownloadDone, models
	if err != nil {
		d.view.State, d.view.Reason = api.DownloadFailed, err.Error()
	}
	if !slices.Contains(h.all, d) { // it was cancelled
		h.removeFolder(d)
	} else if err != nil {
		h.Log.Warn("a model was not fetched", "err", err) // a source may have a password
	}
}

// Get returns a download.
func (h *Handler) Get(r *http.Request) (out api.Download, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.find(r.PathValue("id"))
	if err != nil {
		return out, err
	}
	return d.view, nil
}

// Cancel stops a download and removes what it fetched.
func (h *Handler) Cancel(r *http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.find(r.PathValue("id"))
	if err == nil {
		h.remove(d)
	}
	return err
}

// find returns a download. mu is held, as below.
func (h *Handler) find(id string) (*download, error) {
	for _, d := range h.all {
		if d.view.ID == id {
			return d, nil
		}
	}
	return nil, rest.Errorf(api.CodeNotFound, "there is no download %s", rest.Quote(id))
}

// remove forgets a download. The folder of one that runs is removed when it has stopped.
func (h *Handler) remove(d *download) {
	h.all = slices.DeleteFunc(h.all, func(o *download) bool { return o == d })
	d.cancel()
	if d.view.State != api.DownloadRunning {
		h.removeFolder(d)
	}
}

func (h *Handler) removeFolder(d *download) {
	if err := os.RemoveAll(h.folder(d)); err != nil {
		h.Log.Warn("the folder of a download cannot be removed", "err", err)
	}
}
