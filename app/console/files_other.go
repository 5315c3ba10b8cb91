//go:build !linux

package console

// freeBytes is not known on this system.
func freeBytes(string) (uint64, bool) { return 0, false }

// exchange swaps two folders.
func exchange(a, b string) error { return exchangeByRenames(a, b) }

// sameDevice is not known on this system.
func sameDevice(string, string) bool { return false }
