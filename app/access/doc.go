// Package access decides who may use the server: it knows the tokens, what each of them opens, and whether one is asked
// for at all.
//
// A token is 160 random bits in text, shown once when it is made; the store keeps its SHA-256. On the request path a
// token is hashed and looked up in an immutable table behind an atomic pointer: no lock, no allocation, no database, and
// no comparison whose time could tell anything of a token, because only hashes are compared. A revoked token leaves the
// table before Revoke returns.
//
// The package starts no goroutine. What a scope opens in a protocol is said by the caller, see Needs.
package access
