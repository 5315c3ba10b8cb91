package access

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"strings"
	"sync/atomic"
	"unsafe"
)

// hash is the SHA-256 of a token.
type hash [sha256.Size]byte

// Refusal is why a request may not pass. Its text repeats nothing of the request.
type Refusal struct {
	// Scope is true for a token that is known but does not open this; false for a token that is missing or wrong.
	Scope bool
	text  string
}

// Error returns the text for the client.
func (r *Refusal) Error() string { return r.text }

var (
	missing = &Refusal{text: "missing or wrong token; send the header Authorization: <token>"}
	narrow  = map[Scope]*Refusal{
		Infer:   {Scope: true, text: "the token does not open this; it needs the scope infer"},
		Control: {Scope: true, text: "the token does not open this; it needs the scope control"},
		Admin:   {Scope: true, text: "the token does not open this; it needs the scope admin"},
	}
)

// Request is what Check has to know of a request.
type Request struct {
	// Authorization is the header or metadata of that name: a token, raw or after "Bearer ". It is not kept.
	Authorization string
	// Remote is where the request came from; nil: from somewhere else.
	Remote net.Addr
	// Needs are the scopes of which the token must have one; Admin always does.
	Needs Scope
}

// table is an immutable state of the guard.
type table struct {
	scopes map[hash]Scope
	// asked: a request needs a token.
	asked bool
	// local: but not one from this machine.
	local bool
}

// guard holds the table that requests are checked with.
type guard struct {
	table atomic.Pointer[table]
	// internal opens inference for the page's own tries.
	internal string
}

func newInternal() string { return "internal_" + rand.Text() }

// Check returns nil for a request that may pass and a *Refusal for one that may not. It does not allocate.
func (g *guard) Check(r Request) error {
	t := g.table.Load()
	if !t.asked || t.local && fromHere(r.Remote) {
		return nil
	}
	if err := t.check(r.Authorization, r.Needs); err != nil {
		return err
	}
	return nil
}

// Asked reports whether requests need a token.
func (g *guard) Asked() bool { return g.table.Load().asked }

// CheckToken is Check for a place that asks for a token whatever the protocols do.
func (g *guard) CheckToken(authorization string, needs Scope) error {
	if err := g.table.Load().check(authorization, needs); err != nil {
		return err
	}
	return nil
}

func (t *table) check(authorization string, needs Scope) *Refusal {
	if !tokenCheck {
		return nil
	}
	scope := t.scopes[sum(bare(authorization))]
	switch {
	case scope == 0:
		return missing
	case scope&(needs|Admin) == 0:
		return narrow[needs&-needs]
	}
	return nil
}

// bare cuts "Bearer " off.
func bare(authorization string) string {
	if len(authorization) > 7 && strings.EqualFold(authorization[:7], "bearer ") {
		return authorization[7:]
	}
	return authorization
}

// sum hashes without a copy of the text.
func sum(token string) hash {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(token), len(token)))
}

// fromHere reports whether a connection comes from this machine.
func fromHere(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
