//go:build !linux

package folders

// Exchange swaps two folders.
func Exchange(a, b string) error { return exchangeByRenames(a, b) }
