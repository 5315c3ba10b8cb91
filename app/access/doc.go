// Package access decides which requests may use the server. It knows the access tokens, what each of them opens, and
// whether requests need one.
//
// A token is 160 random bits as text. It is shown once, when it is made; a file of the data folder keeps its SHA-256,
// and the database a copy. If they cannot be read, no token passes. A request's token is hashed and looked up in an
// immutable table behind an atomic pointer, without a lock, an allocation or the database. Only hashes are compared,
// so the time of the comparison reveals nothing about a token. When Revoke returns, the table no longer has the token.
//
// An Entry decides who may use the GUI: its links work once, and open a session of a browser.
//
// The package starts no goroutine. The caller says what a request of its protocol needs; see Request.Needs.
package access
