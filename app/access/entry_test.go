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
		if e.Check(asStranger(nil)) == nil {
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
		if err := e.Check(asStranger(second)); err != nil || e.Check(asStranger(first)) == nil {
			t.Errorf("the oldest session is not the one that is dropped: %v", err)
		}
		if !second.HttpOnly || second.SameSite != http.SameSiteStrictMode {
			t.Errorf("the cookie is %v", second)
		}
		time.Sleep(sessionTime)
		if e.Check(asStranger(second)) == nil {
			t.Error("a session works after its time")
		}
	})
}
