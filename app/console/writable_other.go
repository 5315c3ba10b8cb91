//go:build !unix

package console

import "os"

// writable says whether this process may make files in a folder, by making one.
func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".nereid-*")
	if err != nil {
		return false
	}
	f.Close()
	return os.Remove(f.Name()) == nil
}
