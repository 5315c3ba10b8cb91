package desktop

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// maxDropped is the largest file that a page element may read, in bytes. Models are not read this way; the page
// sends their paths.
const maxDropped = 64 << 20

// drops lets the page read the files of the last drop. WebKit on Linux gives a page only the addresses of dropped
// files, which it may not open. By dropping files the user permits reading them. Its methods are safe for concurrent
// use.
type drops struct {
	mu    sync.Mutex
	id    string   // guarded by mu, as is paths
	paths []string // absolute
}

// offer replaces the previous drop and returns the URL path of the files: the first one is at /0 below it.
func (d *drops) offer(paths []string) (from string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.id, d.paths = rand.Text(), paths
	return "/dropped/" + d.id
}

// find returns the path of the file that was offered at URL path from, "" if there is none.
func (d *drops) find(from string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, path := range d.paths {
		if from == fmt.Sprintf("/dropped/%s/%d", d.id, i) {
			return path
		}
	}
	return ""
}

// ServeHTTP answers with a file of the last drop.
func (d *drops) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := d.find(r.URL.Path)
	if path == "" {
		http.Error(w, "this file was not dropped last; drop it again", http.StatusNotFound)
		return
	}
	name := filepath.Base(path)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		http.Error(w, fmt.Sprintf("%s cannot be read: %v", name, err), http.StatusNotFound)
	case !info.Mode().IsRegular():
		http.Error(w, name+" is no file", http.StatusBadRequest)
	case info.Size() > maxDropped:
		http.Error(w, fmt.Sprintf("%s has %d bytes; at most %d can be taken here", name, info.Size(), maxDropped),
			http.StatusRequestEntityTooLarge)
	default:
		w.Header().Set("Cache-Control", "no-store")
		http.ServeFile(w, r, path)
	}
}
