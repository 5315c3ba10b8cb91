//go:build !linux

package repo

// Written returns a file below a folder that a process has open for writing, "" if there is none or the system does not
// support it.
func Written(string) string { return "" }
