// Package kiosk serves the public page: visitors see the models that are ready, and try them. They can change nothing,
// and see no configuration and no error of a load. The errors of their requests are those of the models.
//
// The package starts no goroutine.
package kiosk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/rest"
)

const (
	maxBody     = 16 << 20         // bytes of a visitor's request
	maxTime     = 30 * time.Second // of a visitor's request; a stream ends then
	maxRequests = 8                // of visitors at one time

	maxHeld = 2 * maxRequests * maxBody // bytes of all requests of visitors, also of those that still arrive
)

var (
	errTooLarge = rest.Errorf(api.CodeTooLarge, "a visitor's request may have at most %d MiB", maxBody>>20)
	errTooLong  = rest.Errorf(api.CodeUnavailable, "a visitor's request may take at most %d seconds",
		maxTime/time.Second)
	errBusy = rest.Errorf(api.CodeUnavailable, "many visitors try models just now; try again in a moment")
)

// Options of a Handler. All but Models and Address are needed.
type Options struct {
	Catalog *catalog.Catalog
	Models  []string // the models on the page; empty: all
	// Address returns the page's URL for other devices, "" if they cannot reach it; nil: never.
	Address func() string
	// Infer passes a request on to the inference server, as one of a visitor.
	Infer func(http.ResponseWriter, *http.Request) error
	// Requests and Request return a model's saved requests.
	Requests func(*http.Request) (api.SavedRequests, error)
	Request  func(*http.Request) (api.SavedRequest, error)
}

// Handler serves the routes of the page.
type Handler struct {
	Options
	started time.Time
	running quota // of requests
	held    quota // of bytes of requests

	mu   sync.Mutex
	list []api.KioskModel // as it was at read; guarded by mu, as is read
	read time.Time
}

// New makes a Handler.
func New(o Options) *Handler {
	return &Handler{Options: o, started: time.Now(), running: newQuota(maxRequests), held: newQuota(maxHeld)}
}

// List lists the models on the page.
func (h *Handler) List(*http.Request) (api.Kiosk, error) {
	out := api.Kiosk{StartedMs: h.started.UnixMilli(), Models: h.models()}
	if h.Address != nil {
		out.URL = h.Address()
	}
	return out, nil
}

// models returns the models on the page. Each page asks every second, so they are read only once a second.
func (h *Handler) models() []api.KioskModel {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.read) < time.Second {
		return h.list
	}
	h.list = nil
	for _, m := range h.Catalog.All() {
		if v := view(m); h.shows(m.Name) && (v.Ready || len(h.Models) > 0) {
			h.list = append(h.list, v)
		}
	}
	h.read = time.Now()
	return h.list
}

func (h *Handler) shows(model string) bool {
	return len(h.Models) == 0 || slices.Contains(h.Models, model)
}

// view is what a visitor sees of a model.
func view(m api.Model) api.KioskModel {
	v := api.KioskModel{Name: m.Name, Ready: m.State == api.StateReady, Decoupled: m.Decoupled, Sequences: m.Sequences,
		Inputs: m.Inputs, Outputs: m.Outputs}
	for _, version := range m.Versions {
		if version.State == api.StateReady {
			v.LastMinute = version.LastMinute // of the newest, which answers
		}
	}
	return v
}

// find finds a model of the page by the name in the path. If the operator named no models, these are the ready ones.
func (h *Handler) find(r *http.Request) (m catalog.Model, err error) {
	name := r.PathValue("name")
	if h.shows(name) {
		m, err = h.Catalog.Find(name)
	}
	if err == nil && len(h.Models) == 0 && h.Catalog.View(m).State != api.StateReady {
		m = catalog.Model{}
	}
	if m.Name == "" || err != nil { // the reason may name folders
		err = rest.Errorf(api.CodeNotFound, "there is no model %s on this page", rest.Quote(name))
	}
	return m, err
}

// Get returns a model with its labels and examples.
func (h *Handler) Get(r *http.Request) (out api.KioskDetail, err error) {
	m, err := h.find(r)
	if err != nil {
		return out, err
	}
	out.KioskModel = view(h.Catalog.View(m))
	out.Labels = m.OutputLabels(catalog.Running(m.Status))
	if saved, err := h.Requests(r); err == nil { // otherwise it has no folder
		for _, item := range saved.Items {
			out.Examples = append(out.Examples, item.Name)
		}
	}
	return out, nil
}

// Example returns a saved request of a model.
func (h *Handler) Example(r *http.Request) (out api.SavedRequest, err error) {
	if _, err := h.find(r); err != nil {
		return out, err
	}
	return h.Request(r)
}

// Try passes a visitor's request on. It does so when all of it has come, so that a slow client keeps nobody from the
// models.
func (h *Handler) Try(w http.ResponseWriter, r *http.Request) error {
	if _, err := h.find(r); err != nil {
		return err
	}
	if r.Header.Get("Content-Encoding") != "" { // it may become much larger
		return rest.Errorf(api.CodeUnsupported, "a visitor's request may not be compressed")
	}
	if r.ContentLength > maxBody {
		if r.ContentLength <= 2*maxBody { // a browser reads the answer only when it has sent its body
			_, _ = io.Copy(io.Discard, r.Body)
		}
		return errTooLarge
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), maxTime, errTooLong)
	defer cancel()
	defer context.AfterFunc(ctx, func() { hurry(w) })()
	address := client(r)
	body := &body{from: http.MaxBytesReader(w, r.Body, maxBody), ctx: ctx, held: &h.held, address: address}
	defer body.drop()
	data, err := io.ReadAll(body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return errTooLarge
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	if !h.running.take(address, 1) {
		return errBusy
	}
	defer h.running.give(address, 1)
	r = r.WithContext(ctx)
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	return h.Infer(w, r)
}

// hurry ends waits for a client. A moment is left to send it the error.
func hurry(w http.ResponseWriter) {
	c, at := http.NewResponseController(w), time.Now().Add(time.Second)
	_ = errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at)) // fails only if the connection is closed
}

// body reads the body of a request, and counts its bytes among those of all visitors.
type body struct {
	from    io.Reader
	ctx     context.Context
	held    *quota // by all visitors
	address string
	read    int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, b.ctx.Err()
	}
	n, err := b.from.Read(p)
	if !b.held.take(b.address, int64(n)) {
		return n, errBusy
	}
	b.read += int64(n)
	return n, err
}

func (b *body) drop() { b.held.give(b.address, b.read) }
