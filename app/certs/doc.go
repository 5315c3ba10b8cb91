// Package certs makes the TLS configuration of a listener from PEM files, and follows them: a renewed certificate, key or
// root is used from the next handshake on, without a restart. Files that cannot be used, as in the middle of a renewal,
// leave the last good ones in service.
//
// It starts no goroutine: the files are read again by a handshake, at most once a second.
package certs
