//go:build !linux

package folders

// FreeBytes is not known on this system.
func FreeBytes(string) (uint64, bool) { return 0, false }

// Exchange swaps two folders.
func Exchange(a, b string) error { return exchangeByRenames(a, b) }
