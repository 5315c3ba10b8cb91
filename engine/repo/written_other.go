//go:build !linux

package repo

// Written returns a file below a folder that some process has open for writing, "" if there is none or the system does not
// tell.
func Written(string) string { return "" }
