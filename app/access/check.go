package access

import (
	"crypto/sha256"
	"net"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// hash is the SHA-256 of a token.
type hash [sha256.Size]byte

// Refusal is why a request may not pass. Its text repeats nothing of the request.
type Refusal struct {
	// Scope is true if the token is known but does not open this, and false if the token is missing or wrong.
	Scope bool
	text  string
}

// Error returns the text for the client.
func (r *Refusal) Error() string { return r.text }

var (
	missing = &Refusal{text: "missing or wrong token; send the header Authorization: <token>"}
	// unreadable refuses all tokens; the log says why.
	unreadable = &Refusal{text: "the server cannot read its tokens and refuses all; its log says how to repair them"}
	outOfScope = map[Scope]*Refusal{
		Infer:   {Scope: true, text: "the token does not open this; it needs the scope infer"},
		Control: {Scope: true, text: "the token does not open this; it needs the scope control"},
		Admin:   {Scope: true, text: "the token does not open this; it needs the scope admin"},
		View:    {Scope: true, text: "the token does not open this; it needs the scope view"},
	}
)

// Request is what Check needs to know about a request.
type Request struct {
	// Authorization is the header or metadata of that name: a token, with or without "Bearer " before it. It is not
	// kept.
	Authorization string
	// Remote is the address of the client; nil: not on this machine.
	Remote net.Addr
	// Needs are the scopes of which the token must have one. A token with Admin always passes.
	Needs Scope
}

// grant is what one token opens, and when it last did.
type grant struct {
	scope Scope
	used  *atomic.Int64 // the second since 1970; 0: not yet. It outlives its table
}

func newGrant(s Scope) grant { return grant{s, new(atomic.Int64)} }

// note notes a use. It writes once a second, so that requests on several cores do not wait for each other.
func (g grant) note() {
	if now := time.Now().Unix(); g.used.Load() != now {
		g.used.Store(now)
	}
}

// table is a state of a guard. Only the times of use in it change.
type table struct {
	grants     map[hash]grant
	required   bool     // a request needs a token
	allowLocal bool     // but not a request from this machine
	unknown    *Refusal // for a token that is not in grants
}

// guard holds the table with which requests are checked.
type guard struct {
	table atomic.Pointer[table]
}

// Check returns nil for a request that may pass, and a *Refusal for one that may not. It does not allocate.
func (g *guard) Check(r Request) error {
	t := g.table.Load()
	if !t.required || t.allowLocal && isLocal(r.Remote) {
		return nil
	}
	return t.check(r.Authorization, r.Needs)
}

// Required reports whether requests need a token.
func (g *guard) Required() bool { return g.table.Load().required }

// RequiredLocally reports whether programs on this machine need a token.
func (g *guard) RequiredLocally() bool {
	t := g.table.Load()
	return t.required && !t.allowLocal
}

// CheckToken is Check for a place that always needs a token.
func (g *guard) CheckToken(authorization string, needs Scope) error {
	return g.table.Load().check(authorization, needs)
}

// Scope returns what a token opens, if that is one of the scopes that are needed, or Admin.
func (g *guard) Scope(authorization string, needs Scope) (Scope, error) {
	return g.table.Load().scope(authorization, needs)
}

func (t *table) check(authorization string, needs Scope) error {
	_, err := t.scope(authorization, needs)
	return err
}

func (t *table) scope(authorization string, needs Scope) (Scope, error) {
	g, ok := t.grants[sum(withoutBearer(authorization))]
	switch {
	case !ok:
		return 0, t.unknown
	case g.scope&(needs|Admin) == 0:
		return 0, outOfScope[needs&-needs]
	}
	g.note()
	return g.scope, nil
}

func withoutBearer(authorization string) string {
	const bearer = "bearer "
	if len(authorization) > len(bearer) && strings.EqualFold(authorization[:len(bearer)], bearer) {
		return authorization[len(bearer):]
	}
	return authorization
}

// sum hashes a token without copying its text.
func sum(token string) hash {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(token), len(token)))
}

// isLocal reports whether a client is on this machine.
func isLocal(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
