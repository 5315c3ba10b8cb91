// Package certs makes the TLS configuration of a listener from PEM files. It reads the files again when they change: a
// renewed certificate, key or root is used from the next handshake on, without a restart. If the files cannot be used,
// for example in the middle of a renewal, the last good ones stay in use.
//
// It starts no goroutine: a handshake reads the files again, at most once a second.
package certs
