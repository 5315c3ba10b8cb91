package settings

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"nereid/app/access"
	"nereid/app/console/api"
	"nereid/app/console/rest"
)

// Network opens the server to other machines.
type Network interface {
	// Set takes effect at once and is kept for the next start.
	Set(ctx context.Context, want api.SetNetwork) error
	State() api.Network
}

// Access serves the routes about access tokens and addresses.
type Access struct {
	Tokens  *access.Tokens // nil: the server has no access settings
	Network Network
}

func (a *Access) check() error {
	if a.Tokens == nil || a.Network == nil {
		return rest.Errorf(api.CodeUnsupported, "this server has no access settings")
	}
	return nil
}

// State lists the tokens and the addresses on which the server listens.
func (a *Access) State(*http.Request) (out api.Access, err error) {
	if err := a.check(); err != nil {
		return out, err
	}
	out = api.Access{Asked: a.Tokens.Required(), Environment: a.Tokens.Environment(), Network: a.Network.State()}
	for _, t := range a.Tokens.List() {
		out.Tokens = append(out.Tokens,
			api.AccessToken{ID: t.ID, Name: t.Name, Scopes: t.Scope.Names(), CreatedMs: t.CreatedUS / 1000,
				UsedMs: t.UsedUS / 1000})
	}
	return out, nil
}

// CreateToken makes a token. Only this reply has its text.
func (a *Access) CreateToken(r *http.Request, req *api.NewToken) (out api.MadeToken, err error) {
	if err := a.check(); err != nil {
		return out, err
	}
	scope, err := access.ParseScopes(strings.Join(req.Scopes, ","))
	if err != nil {
		return out, rest.Errorf(api.CodeInvalid, "%v", err)
	}
	made, text, err := a.Tokens.Create(r.Context(), req.Name, scope)
	if errors.Is(err, access.ErrName) {
		err = rest.Errorf(api.CodeInvalid, "%v", err)
	}
	return api.MadeToken{ID: made.ID, Name: made.Name, Token: text}, err
}

// RevokeToken revokes a token.
func (a *Access) RevokeToken(r *http.Request) (out api.Access, err error) {
	if err := a.check(); err != nil {
		return out, err
	}
	_, err = a.Tokens.Revoke(r.Context(), r.PathValue("id"))
	if errors.Is(err, access.ErrNotFound) {
		return out, rest.Errorf(api.CodeNotFound, "%v", err)
	}
	if err != nil {
		return out, err
	}
	return a.State(r)
}

// SetNetwork changes the addresses on which the server listens.
func (a *Access) SetNetwork(r *http.Request, req *api.SetNetwork) (out api.Access, err error) {
	if err := a.check(); err != nil {
		return out, err
	}
	if err := a.Network.Set(r.Context(), *req); err != nil {
		return out, rest.Errorf(api.CodeConflict, "%v", err)
	}
	return a.State(r)
}
