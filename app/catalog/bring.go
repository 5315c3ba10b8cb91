package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nereid/app/console/catalog"
	"nereid/app/console/code"
	"nereid/app/console/folders"
	"nereid/app/durable"
	"nereid/engine/repo"
)

// key is the name by which the engine knows a model of the catalog.
func (n *Node) key(name string) string {
	if n.Namespaces {
		return repo.Key(n.Repository(), name)
	}
	return name
}

// bring makes a model served as it is desired. pulls ends when there is a new desired state.
func (n *Node) bring(ctx, pulls context.Context, m *Model) error {
	digest, place := m.digestOf(), filepath.Join(n.Repository(), m.Name)
	there := placed(place)
	if other := n.conflict(m.Name); other != "" {
		if there != "" {
			n.giveWay(ctx, m.Name, other)
		}
		return taken(other, true)
	}
	if there == digest {
		return n.ensureLoaded(ctx, m.Name)
	}
	n.mu.Lock()
	f, crashed := n.failed[m.Name], n.state.Crashed[m.Name]
	n.mu.Unlock()
	if f.digest == digest && time.Now().Before(f.next) {
		return errLater
	}
	if crashed.Digest == digest && crashed.Times >= maxCrashes {
		return refusal{fmt.Errorf("the server has ended %d times while it loaded the model; publish another version",
			crashed.Times), true}
	}
	if err := m.check(); err != nil {
		return refusal{err, true}
	}
	size := m.size()
	err := n.puller.pull(pulls, m, func(missing int64) { n.phase(m.Name, pulling, size-missing, size) })
	if err != nil {
		return err
	}
	n.placing.Lock()
	defer n.placing.Unlock()
	if pulls.Err() != nil {
		return pulls.Err()
	}
	if other, err := n.remoteConflict(m.Name); err != nil || other != "" {
		return cmp.Or(err, taken(other, false))
	}
	n.phase(m.Name, loading, 0, 0)
	part := filepath.Join(n.work(), m.Name)
	if err := n.build(m, part, digest); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return n.install(ctx, m.Name, digest, part, place)
}

func taken(repository string, cheap bool) error {
	return refusal{fmt.Errorf("%s has a model of the name, which the catalog did not bring", repository), cheap}
}

// remoteConflict is conflict for repositories in a cloud's storage, which takes a question to each.
func (n *Node) remoteConflict(name string) (string, error) {
	for root, r := range n.Remotes {
		files, err := r.List(name)
		if err != nil {
			return "", fmt.Errorf("it is not known whether %s has a model of the name: %w", root, err)
		}
		if len(files) > 0 && !n.Namespaces {
			return root, nil
		}
	}
	return "", nil
}

// conflict returns another repository that has a model of a name, "" if there is none.
func (n *Node) conflict(name string) string {
	own := filepath.Join(n.Repository(), name)
	if _, err := os.Lstat(own); err == nil && placed(own) == "" {
		return n.Repository()
	}
	if n.Namespaces {
		return ""
	}
	for _, root := range n.Repositories {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil && !catalog.Remote(root) {
			return root
		}
	}
	if st, ok := n.engine.Model(name); ok && catalog.Remote(st.Repository) {
		return st.Repository
	}
	return ""
}

// ensureLoaded loads a model once in each process if nothing else has: in mode explicit the engine starts without it.
func (n *Node) ensureLoaded(ctx context.Context, name string) error {
	n.mu.Lock()
	done := n.loaded[name]
	n.loaded[name] = true
	n.mu.Unlock()
	if st, _ := n.engine.Model(n.key(name)); done || len(catalog.InService(st)) > 0 {
		return nil
	}
	return n.engine.Reload(ctx, n.key(name))
}

// build makes the folder of a model, whose files are there. The files are links: each content is on the disk once.
func (n *Node) build(m *Model, part, digest string) error {
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	for _, f := range m.Files {
		at := filepath.Join(part, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.Link(n.files.path(f.SHA256), at); err != nil {
			return err
		}
	}
	config := m.Config
	if config != "" {
		if err := durable.Replace(filepath.Join(part, repo.ConfigName), []byte(config), 0o600); err != nil {
			return err
		}
	} else if b, err := os.ReadFile(filepath.Join(part, repo.ConfigName)); err == nil {
		config = string(b)
	}
	runs, err := code.Find(part, m.Name, config)
	if err != nil {
		return err
	}
	if len(runs) > 0 && !n.AllowCode {
		var all []string
		for _, r := range runs[:min(10, len(runs))] {
			all = append(all, r.Path+" ("+r.Why+")")
		}
		return refusal{fmt.Errorf("%s runs as code on this machine when the model is loaded; the operator of the node "+
			"allows that with --catalog-allow-code", strings.Join(all, ", ")), false}
	}
	if err := durable.Replace(filepath.Join(part, digestName), []byte(digest+"\n"), 0o600); err != nil {
		return err
	}
	return durable.SyncTree(part)
}

// install exchanges the folder of a model with the one in its place, in one step, and loads the model. If that fails,
// the old one is in its place again, and stays in service.
func (n *Node) install(ctx context.Context, name, digest, part, place string) error {
	if err := n.change(func(s *state) { s.Trying = &trial{Model: name, Digest: digest} }); err != nil {
		return err
	}
	replaced, err := n.swap(part, place)
	if err == nil {
		err = n.engine.Reload(ctx, n.key(name))
	}
	if err != nil && placed(place) == digest {
		err = errors.Join(err, n.swapBack(ctx, name, part, place, replaced))
	}
	cleared := n.change(func(s *state) {
		s.Trying = nil
		if err == nil {
			delete(s.Crashed, name)
		}
	})
	n.mu.Lock()
	n.loaded[name] = true
	n.mu.Unlock()
	if err = errors.Join(err, cleared, os.RemoveAll(part)); err == nil {
		n.Log.Info("a model of the catalog is served", "model", name)
	}
	return err
}

func (n *Node) swap(part, place string) (replaced bool, err error) {
	if err = folders.Exchange(part, place); errors.Is(err, fs.ErrNotExist) {
		err = folders.Place(part, place)
	} else {
		replaced = err == nil
	}
	return replaced, errors.Join(err, durable.SyncFolder(n.Repository()))
}

func (n *Node) swapBack(ctx context.Context, name, part, place string, replaced bool) error {
	if !replaced {
		n.engine.Remove(n.key(name))
		return os.RemoveAll(place)
	}
	if err := errors.Join(folders.Exchange(part, place), durable.SyncFolder(n.Repository())); err != nil {
		return err
	}
	// The engine still serves the old model. The reload only shows it that the old files are back.
	return n.engine.Reload(context.WithoutCancel(ctx), n.key(name))
}
