//go:build !linux

package folders

// Exchange swaps two folders.
func Exchange(a, b string) error { return exchangeByRenames(a, b) }

// Place renames a folder to a path where nothing is. The error for a path that is taken wraps fs.ErrExist.
func Place(from, to string) error { return placeByRename(from, to) }
