package console

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"nereid/app/access"
	"nereid/app/console/api"
)

// Network opens the server to other machines.
type Network interface {
	// Set takes effect at once and is kept for the next start.
	Set(ctx context.Context, want api.SetNetwork) error
	State() api.Network
}

func (c *Console) accessState() (api.Access, error) {
	if c.o.Tokens == nil || c.o.Network == nil {
		return api.Access{}, fail(api.CodeUnsupported, "this server has no access settings")
	}
	out := api.Access{Asked: c.o.Tokens.Asked(), Environment: c.o.Tokens.Environment(), Network: c.o.Network.State()}
	for _, t := range c.o.Tokens.List() {
		out.Tokens = append(out.Tokens, api.AccessToken{ID: t.ID, Name: t.Name, Scopes: t.Scope.Names(), CreatedMs: t.CreatedUS / 1000})
	}
	return out, nil
}

func (c *Console) getAccess(w http.ResponseWriter, _ *http.Request) error {
	out, err := c.accessState()
	if err != nil {
		return err
	}
	return reply(w, out)
}

func (c *Console) postToken(w http.ResponseWriter, r *http.Request) error {
	var req api.NewToken
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if _, err := c.accessState(); err != nil {
		return err
	}
	scope, err := access.ParseScopes(strings.Join(req.Scopes, ","))
	if err != nil {
		return fail(api.CodeInvalid, "%v", err)
	}
	made, text, err := c.o.Tokens.Create(r.Context(), req.Name, scope)
	switch {
	case errors.Is(err, access.ErrName):
		return fail(api.CodeInvalid, "%v", err)
	case err != nil:
		return err
	}
	writeJSON(w, http.StatusCreated, api.MadeToken{ID: made.ID, Name: made.Name, Token: text})
	return nil
}

func (c *Console) deleteToken(w http.ResponseWriter, r *http.Request) error {
	if _, err := c.accessState(); err != nil {
		return err
	}
	_, err := c.o.Tokens.Revoke(r.Context(), r.PathValue("id"))
	if errors.Is(err, access.ErrNotFound) {
		return fail(api.CodeNotFound, "%v", err)
	}
	if err != nil {
		return err
	}
	return c.getAccess(w, r)
}

func (c *Console) putNetwork(w http.ResponseWriter, r *http.Request) error {
	var req api.SetNetwork
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if _, err := c.accessState(); err != nil {
		return err
	}
	if err := c.o.Network.Set(r.Context(), req); err != nil {
		return fail(api.CodeConflict, "%v", err)
	}
	return c.getAccess(w, r)
}
