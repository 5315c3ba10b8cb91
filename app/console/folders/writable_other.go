//go:build !unix

package folders

import "os"

// Writable reports whether this process may create files in a folder. It creates one.
func Writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".nereid-*")
	if err != nil {
		return false
	}
	f.Close()
	return os.Remove(f.Name()) == nil
}
