package rest

import (
	"context"
	"net/http"

	"nereid/app/access"
)

type scopeKey struct{}

// WithScope returns r with what its client may do.
func WithScope(r *http.Request, scope access.Scope) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), scopeKey{}, scope))
}

// ScopeOf returns what the client of a request may do. Without WithScope that is everything: then nobody is asked for
// a token.
func ScopeOf(r *http.Request) access.Scope {
	if scope, ok := r.Context().Value(scopeKey{}).(access.Scope); ok {
		return scope
	}
	return access.Admin
}
