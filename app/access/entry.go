package access

import (
	"crypto/rand"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"nereid/engine/system/socket"
)

const (
	linkTime    = 10 * time.Minute // how long a link may be used
	maxSessions = 64               // then the one that ends first is dropped
	sessionTime = 24 * time.Hour
	anyUser     = -1 // a client whose user is not known
)

// Entry decides who may use the GUI's interface. Programs of the server's own user and of root may. All others need a
// token with the scope admin or view, or a session, which a browser gets for such a token or a link that works once.
//
// A session belongs to the user who opened it, because browsers send cookies to all ports of a host, and so to servers
// of other users. It is safe for concurrent use.
type Entry struct {
	Tokens *Tokens

	mu       sync.Mutex // guards the rest
	links    map[hash]time.Time
	sessions map[hash]session
}

type session struct {
	uid   int    // of the browser, or anyUser
	token string // with which it was opened; "": with a link
	until time.Time
}

// missingEntry is the refusal of a client that shows nothing.
var missingEntry = &Refusal{text: "this page belongs to the user who runs the server; open it with the link that the " +
	"command nereid link prints, or with a token that has the scope admin or view"}

// Check returns what a request may do: everything with Admin, else what its token opens, of which one scope is View.
func (e *Entry) Check(r *http.Request) (Scope, error) {
	uid := userOf(r)
	if uid == 0 || uid == os.Getuid() {
		return Admin, nil
	}
	if text := r.Header.Get("Authorization"); text != "" {
		return e.Tokens.Scope(text, View)
	}
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return 0, missingEntry
	}
	e.mu.Lock()
	s, ok := e.sessions[sum(c.Value)]
	e.mu.Unlock()
	if !ok || s.uid != uid || time.Now().After(s.until) {
		return 0, missingEntry
	}
	if s.token != "" {
		return e.Tokens.Scope(s.token, View)
	}
	return Admin, nil
}

// Link returns a secret that opens one session within linkTime.
func (e *Entry) Link() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(e.links, func(_ hash, until time.Time) bool { return now.After(until) })
	if e.links == nil {
		e.links = map[hash]time.Time{}
	}
	secret := rand.Text()
	e.links[sum(secret)] = now.Add(linkTime)
	return secret
}

// Open returns the cookie of a new session for the secret of a link, or for a token with the scope admin or view.
func (e *Entry) Open(r *http.Request, secret string) (*http.Cookie, error) {
	s := session{uid: userOf(r), until: time.Now().Add(sessionTime)}
	e.mu.Lock()
	defer e.mu.Unlock()
	until, isLink := e.links[sum(secret)]
	delete(e.links, sum(secret))
	if !isLink || time.Now().After(until) {
		if err := e.Tokens.CheckToken(secret, View); err != nil {
			return nil, err
		}
		s.token = secret
	}
	e.makeRoom()
	value := rand.Text()
	e.sessions[sum(value)] = s
	return &http.Cookie{Name: cookieName(r), Value: value, Path: "/api/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode}, nil
}

// makeRoom removes the session that ends first if there are too many. mu is held.
func (e *Entry) makeRoom() {
	if e.sessions == nil {
		e.sessions = map[hash]session{}
	}
	if len(e.sessions) < maxSessions {
		return
	}
	var first hash
	for h, s := range e.sessions {
		if was, ok := e.sessions[first]; !ok || s.until.Before(was.until) {
			first = h
		}
	}
	delete(e.sessions, first)
}

// userOf returns the user of a request's client, or anyUser. The server's ConnContext is socket.NewContext.
func userOf(r *http.Request) int {
	uid, known := socket.PeerUser(socket.FromContext(r.Context()))
	if !known {
		return anyUser
	}
	return uid
}

// cookieName differs by port, so that the sessions of several servers do not replace each other.
func cookieName(r *http.Request) string {
	if tcp, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return "nereid-" + strconv.Itoa(tcp.Port)
	}
	return "nereid"
}
