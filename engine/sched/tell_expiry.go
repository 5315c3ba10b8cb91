//go:build !mutant_tell_expiry

package sched

// tellExpiry says that a request whose timeout has expired is refused, and does not run.
const tellExpiry = true
