package settings

import (
	"context"
	"net/http"
	"sync"

	"nereid/app/console/api"
	"nereid/app/console/rest"
)

// Desktop has the settings of the native window. Its methods are not called concurrently.
type Desktop interface {
	// Set takes effect at once and is kept for the next start.
	Set(ctx context.Context, want api.SetDesktop) error
	State() api.Desktop
}

// Window serves the routes that exist only in the native window.
type Window struct {
	// Pick opens the system's file dialog and returns the chosen path, "" if it was cancelled. nil: there is no window.
	Pick    func(ctx context.Context, folder bool) (string, error)
	Desktop Desktop // nil: there is no window

	mu sync.Mutex // held while Desktop works
}

// PickFile asks the user for a file or folder.
func (w *Window) PickFile(r *http.Request, req *api.PickRequest) (out api.PickResult, err error) {
	if w.Pick == nil {
		return out, rest.Errorf(api.CodeNotFound, "there is no window whose dialog could open; upload the file instead")
	}
	out.Path, err = w.Pick(r.Context(), req.Folder)
	return out, err
}

// State returns the settings.
func (w *Window) State(*http.Request) (api.Desktop, error) {
	if w.Desktop == nil {
		return api.Desktop{}, rest.Errorf(api.CodeNotFound, "this server has no window")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Desktop.State(), nil
}

// Set changes the settings.
func (w *Window) Set(r *http.Request, req *api.SetDesktop) (api.Desktop, error) {
	if w.Desktop == nil {
		return api.Desktop{}, rest.Errorf(api.CodeNotFound, "this server has no window")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.Desktop.Set(r.Context(), *req); err != nil {
		return api.Desktop{}, rest.Errorf(api.CodeConflict, "%v", err)
	}
	return w.Desktop.State(), nil
}
