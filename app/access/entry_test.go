package access

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// asStranger is a request whose user is not known, with a cookie unless it is nil.
func asStranger(cookie *http.Cookie) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/server", nil) // from another machine
	if cookie != nil {
		r.AddCookie(cookie)
	}
	return r
}

// A link and a session end after their time. An old session is dropped for a new one above the limit.
func TestEntryIsLimited_H15(t *testing.T) {
	tokens := open(t, Options{})
	synctest.Test(t, func(t *testing.T) {
		e := &Entry{Tokens: tokens}
		if _, err := e.Check(asStranger(nil)); err == nil {
			t.Error("a client that is not known passes")
		}
		late := e.Link()
		time.Sleep(linkTime + time.Second)
		if _, err := e.Open(asStranger(nil), late); err == nil {
			t.Error("a link works after its time")
		}
		session := func() *http.Cookie {
			c, err := e.Open(asStranger(nil), e.Link())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			return c
		}
		first, second := session(), session()
		for range maxSessions - 1 {
			session()
		}
		scope, err := e.Check(asStranger(second))
		if _, other := e.Check(asStranger(first)); scope != Admin || err != nil || other == nil {
			t.Errorf("the oldest session is not the one that is dropped: %v, %v, %v", scope, err, other)
		}
		if !second.HttpOnly || second.SameSite != http.SameSiteStrictMode {
			t.Errorf("the cookie is %v", second)
		}
		time.Sleep(sessionTime)
		if _, err := e.Check(asStranger(second)); err == nil {
			t.Error("a session works after its time")
		}
	})
}

// A session opens what its token opens, until the token is revoked.
func TestSessionOfAToken(t *testing.T) {
	tokens := open(t, Options{})
	e := &Entry{Tokens: tokens}
	for scope, want := range map[Scope]Scope{View: View, View | Infer: View | Infer, Admin: Admin, Infer | Control: 0} {
		made, secret, err := tokens.Create(t.Context(), scope.String(), scope)
		if err != nil {
			t.Fatal(err)
		}
		cookie, err := e.Open(asStranger(nil), secret)
		if (err == nil) != (want != 0) {
			t.Fatalf("a session for the scope %v: %v", scope, err)
		}
		if want == 0 {
			continue
		}
		if got, err := e.Check(asStranger(cookie)); got != want || err != nil {
			t.Errorf("a session of the scope %v opens %v: %v", scope, got, err)
		}
		if _, err := tokens.Revoke(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		if got, err := e.Check(asStranger(cookie)); got != 0 || err == nil {
			t.Errorf("a session of a revoked token opens %v", got)
		}
	}
}
