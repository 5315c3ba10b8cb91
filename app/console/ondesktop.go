package console

import (
	"context"
	"net/http"

	"nereid/app/console/api"
)

// Desktop is what can be decided about the window. Set and State are not called at once.
type Desktop interface {
	// Set takes effect at once and is kept for the next start.
	Set(ctx context.Context, want api.SetDesktop) error
	State() api.Desktop
}

func (c *Console) getDesktop(w http.ResponseWriter, _ *http.Request) error {
	if c.o.Desktop == nil {
		return fail(api.CodeNotFound, "this server has no window")
	}
	c.window.Lock()
	defer c.window.Unlock()
	return reply(w, c.o.Desktop.State())
}

func (c *Console) putDesktop(w http.ResponseWriter, r *http.Request) error {
	if c.o.Desktop == nil {
		return fail(api.CodeNotFound, "this server has no window")
	}
	var req api.SetDesktop
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	c.window.Lock()
	defer c.window.Unlock()
	if err := c.o.Desktop.Set(r.Context(), req); err != nil {
		return fail(api.CodeConflict, "%v", err)
	}
	return reply(w, c.o.Desktop.State())
}
