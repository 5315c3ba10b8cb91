package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// reconcile makes the node serve a model as the desired state says. pulls ends when there is a new desired state.
func (n *Node) reconcile(ctx, pulls context.Context, m *Model) error {
	if m.Fault != "" { // the name may be a path
		return refusal{errors.New(m.Fault), true}
	}
	digest, place := m.digestOf(), filepath.Join(n.Repository(), m.Name)
	current := placed(place)
	if other := n.conflict(m.Name); other != "" {
		if current != "" {
			n.giveWay(ctx, m.Name, other)
		}
		return taken(other, true)
	}
	if current == digest {
		return n.ensureLoaded(ctx, m.Name)
	}
	n.mu.Lock()
	f, crashed := n.failed[m.Name], n.state.Crashed[m.Name]
	n.mu.Unlock()
	if f.digest == digest && time.Now().Before(f.next) {
		return errLater
	}
	if crashed.Digest == digest && crashed.Times >= maxCrashes {
		return refusal{fmt.Errorf("the server exited %d times while it loaded the model; publish another version",
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

// taken refuses a model because a repository has another model of its name.
func taken(repository string, cheap bool) error {
	return refusal{fmt.Errorf("%s has a model of this name, which is not from the catalog", repository), cheap}
}

// remoteConflict is conflict for repositories in cloud storage. It sends a request to each.
func (n *Node) remoteConflict(name string) (string, error) {
	for root, r := range n.Remotes {
		files, err := r.List(name)
		if err != nil {
			return "", fmt.Errorf("it is not known whether %s has a model of this name: %w", root, err)
		}
		if len(files) > 0 && !n.Namespaces {
			return root, nil
		}
	}
	return "", nil
}

// conflict returns the repository that has another model of a name; "": there is none.
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

// ensureLoaded loads a model, once in the life of this process, unless it is served: in mode explicit the engine starts
// without it.
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

// build makes the folder of a model whose files were downloaded. Its files are hard links: each content is on the disk
// once.
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
		return refusal{errors.New(code.Refusal(runs, "the operator of the node allows that with --catalog-allow-code")),
			false}
	}
	if err := durable.Replace(filepath.Join(part, digestName), []byte(digest+"\n"), 0o600); err != nil {
		return err
	}
	return durable.SyncTree(part)
}

// install exchanges the new folder of a model with the old one in one step, and loads the model. If that fails, it puts
// the old folder back; the old model stays in service.
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

// swap exchanges the folder part with the one at place. replaced: there was one.
func (n *Node) swap(part, place string) (replaced bool, err error) {
	if err = folders.Exchange(part, place); errors.Is(err, fs.ErrNotExist) {
		err = folders.Place(part, place)
	} else {
		replaced = err == nil
	}
	return replaced, errors.Join(err, durable.SyncFolder(n.Repository()))
}

// swapBack undoes swap.
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
