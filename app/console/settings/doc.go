// Package settings serves the console's settings: the access tokens, the addresses on which the server listens, and the
// native window.
//
// The package starts no goroutine.
package settings
