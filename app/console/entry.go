package console

import (
	"net/http"

	"nereid/app/access"
	"nereid/app/console/api"
	"nereid/app/console/rest"
)

// sessionPath is the only route of the interface for clients that were not let in.
const sessionPath = "/api/session"

// Entry decides who may use the interface. A nil Entry lets everybody in.
type Entry interface {
	// Check returns what a request may do.
	Check(r *http.Request) (access.Scope, error)
	// Open returns the cookie of a new session for a secret.
	Open(r *http.Request, secret string) (*http.Cookie, error)
}

func (c *Console) sessionEndpoint() rest.Endpoint {
	return rest.Raw(c.openSession).Reads("OpenSession", 4<<10).With(http.StatusNoContent)
}

// openSession lets a browser in that has the secret of a link, or a token.
func (c *Console) openSession(w http.ResponseWriter, r *http.Request) error {
	var req api.OpenSession
	if err := rest.Read(r, &req); err != nil {
		return err
	}
	if c.entry != nil {
		cookie, err := c.entry.Open(r, req.Secret)
		if err != nil {
			return rest.Errorf(api.CodeUnauthenticated, "%v", err)
		}
		http.SetCookie(w, cookie)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
