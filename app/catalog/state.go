package catalog

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nereid/app/console/folders"
	"nereid/app/durable"
)

// state is what a node keeps on the disk, beside the files and the models: the file state.json.
type state struct {
	Node    string  `json:"node"` // its name, if the operator gave none
	Tag     string  `json:"tag"`  // the ETag of Desired
	Desired Desired `json:"desired"`
	// Trying is the model that is being put into its place. If the next process finds it, this one has ended meanwhile.
	Trying *trial `json:"trying,omitempty"`
	// Crashed counts how often the server exited while it loaded a model, by the name.
	Crashed map[string]trial `json:"crashed,omitempty"`
}

type trial struct {
	Model  string `json:"model"`
	Digest string `json:"digest"` // of the model
	Times  int    `json:"times,omitempty"`
}

// maxCrashes is how often a model may end the server before it is refused.
const maxCrashes = 2

// digestName is the hidden file of a model folder with the model's digest.
const digestName = ".nereid-catalog"

// placed returns the digest of the model that is in a folder, "" if it is none of the catalog.
func placed(folder string) string {
	b, err := os.ReadFile(filepath.Join(folder, digestName))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// open makes the folders of a node, reads its state, and undoes what an earlier process has not finished.
func (n *Node) open() error {
	for _, dir := range []string{n.Repository(), n.files.dir, n.work()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(n.stateFile())
	if err == nil {
		err = json.Unmarshal(b, &n.state)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be read; remove it, and the models are pulled again: %w", n.stateFile(), err)
	}
	if n.state.Crashed == nil {
		n.state.Crashed = map[string]trial{}
	}
	if err := errors.Join(n.undo(), os.RemoveAll(n.work()), os.Mkdir(n.work(), 0o700)); err != nil {
		return err
	}
	if n.state.Node == "" {
		name, err := os.Hostname()
		if err != nil || name == "" {
			name = "node"
		}
		n.state.Node = name + "-" + strings.ToLower(rand.Text()[:6])
	}
	return n.save()
}

// undo takes the model away that an earlier process was loading when it ended, because it may have been the reason. The
// model that it replaced is put back.
func (n *Node) undo() error {
	t := n.state.Trying
	if t == nil {
		return nil
	}
	n.state.Trying = nil
	place, old := filepath.Join(n.Repository(), t.Model), filepath.Join(n.work(), t.Model)
	if placed(place) != t.Digest {
		return nil // it was not in its place yet
	}
	t.Times = 1
	if before := n.state.Crashed[t.Model]; before.Digest == t.Digest {
		t.Times += before.Times
	}
	n.state.Crashed[t.Model] = *t
	n.Log.Warn("the server ended before a model of the catalog was loaded, so the model is taken back",
		"model", t.Model, "times", t.Times)
	if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return durable.Rename(place, old)
	}
	return errors.Join(folders.Exchange(old, place), durable.SyncFolder(n.Repository()))
}

// save writes the state. n.mu is held, or there is one goroutine only.
func (n *Node) save() error {
	b, err := json.MarshalIndent(&n.state, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(n.stateFile(), append(b, '\n'), 0o600)
}

// change changes the state and writes it.
func (n *Node) change(f func(*state)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(&n.state)
	return n.save()
}

func (n *Node) stateFile() string { return filepath.Join(n.Folder, "state.json") }

// Repository returns the model repository of the catalog's models.
func (n *Node) Repository() string { return filepath.Join(n.Folder, "models") }

// work has the model folders that are made.
func (n *Node) work() string { return filepath.Join(n.Folder, "work") }
