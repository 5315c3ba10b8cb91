package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/staging"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

const (
	importLife = time.Hour // without a call
	maxImports = 64
)

// imports are the staged imports.
type imports struct {
	dir string

	mu  sync.Mutex
	all map[string]*staged // guarded by mu
}

// staged is one import. Lock order: a model's lock, then an import's.
type staged struct {
	mu      sync.Mutex // guards what follows
	area    *staging.Area
	view    api.Import
	dir     string // of the arranged model; "" before
	touched time.Time
	writing int  // files that are arriving
	edited  bool // the user wrote the configuration
	gone    bool
}

// newImports starts with an empty folder: what an earlier run left is removed.
func newImports(dir string) (*imports, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return &imports{dir: dir, all: map[string]*staged{}}, makeFolder(dir)
}

func (m *imports) close() error {
	m.mu.Lock()
	all := m.all
	m.all = map[string]*staged{}
	m.mu.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, s.remove())
	}
	return errors.Join(errs...)
}

func (m *imports) get(id string) (*staged, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.all[id]
	if s == nil {
		return nil, fail(api.CodeNotFound, "there is no import %s; it may have been left alone for too long, drop the model again", quote(id))
	}
	return s, nil
}

// add makes an import with an empty Area.
func (m *imports) add(v api.Import, l staging.Limits) (*staged, error) {
	v.ID, v.State, v.Progress = newID(), api.ImportUploading, -1
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) >= maxImports {
		return nil, fail(api.CodeUnavailable, "%d imports are open already; finish or close some", maxImports)
	}
	area, err := staging.NewArea(filepath.Join(m.dir, v.ID), l)
	if err != nil {
		return nil, err
	}
	s := &staged{area: area, view: v, touched: time.Now()}
	m.all[v.ID] = s
	return s, nil
}

func (m *imports) drop(id string) error {
	m.mu.Lock()
	s := m.all[id]
	delete(m.all, id)
	m.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.remove()
}

// expire removes imports that were left alone.
func (m *imports) expire(log *slog.Logger) {
	m.mu.Lock()
	var old []string
	for id, s := range m.all {
		if s.idle() > importLife {
			old = append(old, id)
		}
	}
	m.mu.Unlock()
	for _, id := range old {
		if err := m.drop(id); err != nil {
			log.Warn("an import that was left alone cannot be removed", "import", id, "err", err)
		}
	}
}

// idle is how long nothing happened. One that is locked is in use.
func (s *staged) idle() time.Duration {
	if !s.mu.TryLock() {
		return 0
	}
	defer s.mu.Unlock()
	if s.view.State == api.ImportCommitting || s.writing > 0 {
		return 0
	}
	return time.Since(s.touched)
}

func (s *staged) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	return s.area.Remove()
}

// target is the name that the model will have, and the folder where it lies now.
func (s *staged) target() (name, folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Name, s.dir
}

// use locks an import for a change and marks it as used. It refuses one that is being committed or is done.
func (c *Console) use(id string) (*staged, error) {
	s, err := c.imports.get(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.touched = time.Now()
	switch {
	case s.gone:
		err = fail(api.CodeNotFound, "the import was removed")
	case s.view.State == api.ImportCommitting:
		err = fail(api.CodeConflict, "the import is being committed")
	case s.view.State == api.ImportLoaded:
		err = fail(api.CodeConflict, "the import is done")
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return s, nil
}

// publish sends the import's state to the page. s.mu is held.
func (c *Console) publishImport(s *staged) { c.hub.publish("import", s.view) }

func (c *Console) postImport(w http.ResponseWriter, r *http.Request) error {
	var req api.ImportCreate
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if len(c.o.Repositories) == 0 {
		return fail(api.CodeUnsupported, "there is no model repository to import into; start with --model-repository")
	}
	if req.Path != "" {
		v, err := c.importPath(r.Context(), req.Path)
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusCreated, v)
		return nil
	}
	if free, ok := freeBytes(c.o.DataDir); ok && req.TotalBytes > 0 && uint64(req.TotalBytes) > free {
		return fail(api.CodeTooLarge, "the model has %d bytes, but only %d are free in %s", req.TotalBytes, free, c.o.DataDir)
	}
	s, err := c.imports.add(api.Import{Origin: api.ImportUpload, Source: req.Source, Repository: c.o.Repositories[0]}, c.o.Limits)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.publishImport(s)
	writeJSON(w, http.StatusCreated, s.view)
	return nil
}

// importPath stages a file or folder of this machine.
func (c *Console) importPath(ctx context.Context, path string) (api.Import, error) {
	path = filepath.Clean(path)
	switch {
	case len(c.o.Repositories) == 0:
		return api.Import{}, fail(api.CodeUnsupported, "there is no model repository to import into; start with --model-repository")
	case !filepath.IsAbs(path):
		return api.Import{}, fail(api.CodeInvalid, "the path %s is not absolute", quote(path))
	case forbidden(path, c.o.DataDir):
		return api.Import{}, fail(api.CodeForbidden, "nothing can be imported from %s", path)
	}
	if err := staging.LooksLikeModel(path); err != nil {
		return api.Import{}, err
	}
	s, err := c.imports.add(api.Import{Origin: api.ImportPath, Source: filepath.Base(path), Repository: c.o.Repositories[0]}, c.o.Limits)
	if err != nil {
		return api.Import{}, err
	}
	s.mu.Lock()
	err = s.area.CopyFrom(path)
	if err == nil {
		err = c.arrange(ctx, s)
	}
	v := s.view
	if err == nil {
		c.publishImport(s)
	}
	s.mu.Unlock()
	if err != nil {
		return api.Import{}, errors.Join(err, c.imports.drop(v.ID))
	}
	return v, nil
}

// forbidden keeps imports away from the system's own trees and from what this server keeps.
func forbidden(path, dataDir string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	for _, tree := range []string{"/proc", "/sys", "/dev", filepath.Join(dataDir, "imports"), filepath.Join(dataDir, "trash")} {
		if path == tree || strings.HasPrefix(path, tree+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

func (c *Console) getImport(w http.ResponseWriter, r *http.Request) error {
	s, err := c.imports.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = time.Now()
	return reply(w, s.view)
}

func (c *Console) putImportFile(w http.ResponseWriter, r *http.Request) error {
	s, err := c.imports.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	area, err := s.receive()
	if err != nil {
		return err
	}
	defer s.received()
	// Not under the lock: files come at the same time.
	if err := area.Put(r.PathValue("path"), r.Body); err != nil {
		return err
	}
	return noContent(w)
}

// receive says where a file that arrives is written to. It does not expire until received is called.
func (s *staged) receive() (*staging.Area, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view.State == api.ImportCommitting || s.view.State == api.ImportLoaded {
		return nil, fail(api.CodeConflict, "the import takes no more files; it is %s", s.view.State)
	}
	s.writing++
	return s.area, nil
}

func (s *staged) received() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing--
	s.touched = time.Now()
}

func (c *Console) postAnalyze(w http.ResponseWriter, r *http.Request) error {
	s, err := c.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := c.arrange(r.Context(), s); err != nil {
		return err
	}
	c.publishImport(s)
	return reply(w, s.view)
}

// arrange makes a model folder of what came in and fills in what the user sees of it. s.mu is held.
func (c *Console) arrange(ctx context.Context, s *staged) error {
	l, err := s.area.Arrange(s.view.Source)
	if err != nil {
		return err
	}
	v := &s.view
	s.dir = l.Dir
	v.State, v.Reason = api.ImportStaged, ""
	v.Kind = map[staging.Shape]api.ImportKind{staging.SingleFile: api.ImportONNX, staging.Folder: api.ImportFolder, staging.Archive: api.ImportZip}[l.Shape]
	v.Files, v.Versions, v.Code = apiFiles(l.Files), l.Versions, nil
	for _, f := range l.Code {
		v.Code = append(v.Code, api.CodeFile{Path: f.Path, Why: f.Why})
	}
	found, err := readText(filepath.Join(l.Dir, repo.ConfigName))
	if err != nil {
		return err
	}
	if v.Name == "" {
		v.Name = freeName(v.Repository, l.Name)
		if found != nil { // a name in the configuration is what the author called it
			if cfg, _, _ := modelconfig.Parse(repo.ConfigName, []byte(*found)); cfg.GetName() != "" && repo.CheckName(cfg.GetName()) == nil {
				v.Name = cfg.GetName()
			}
		}
	}
	if !s.edited {
		v.ConfigGenerated = found == nil
		if found != nil {
			v.Config = *found
		} else {
			d := c.draft(ctx, v.Name, s.dir, nil)
			v.Config = d.generated()
		}
	}
	c.check(ctx, s)
	return nil
}

// freeName answers a name for a model file that says nothing of what it is: "model" becomes model_2 where there is a
// model of that name. Other names stay: who drops resnet.onnx again means to replace it.
func freeName(repository, name string) string {
	free := name
	for n := 2; name == "model"; n++ {
		if _, err := os.Lstat(filepath.Join(repository, free)); err != nil {
			break
		}
		free = fmt.Sprintf("%s_%d", name, n)
	}
	return free
}

// check looks at the import's configuration again. s.mu is held.
func (c *Console) check(ctx context.Context, s *staged) {
	v := &s.view
	d := c.draft(ctx, v.Name, s.dir, &v.Config)
	v.Faults = apiFaults(d.withFile(modelconfig.SeverityError), v.Config, v.Name) // nothing serves yet: a broken file stays out
	v.Backend, v.MaxBatchSize = d.cfg.GetBackend(), int(d.cfg.GetMaxBatchSize())
	v.Inputs, v.Outputs = tensors(d.cfg, dimNames(d.sig))
	_, err := os.Stat(filepath.Join(v.Repository, v.Name))
	v.Exists = err == nil
}

func (c *Console) putImportConfig(w http.ResponseWriter, r *http.Request) error {
	var req api.ImportConfig
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	s, err := c.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.dir == "" {
		return fail(api.CodeConflict, "the import is not analysed yet")
	}
	v := &s.view
	if req.Repository != "" {
		if !slices.Contains(c.o.Repositories, req.Repository) {
			return fail(api.CodeInvalid, "%s is not a model repository of this server (%s)", quote(req.Repository), strings.Join(c.o.Repositories, ", "))
		}
		v.Repository = req.Repository
	}
	if req.Config != "" && req.Config != v.Config {
		v.Config, s.edited, v.ConfigGenerated = req.Config, true, false
	}
	if req.Name != "" && req.Name != v.Name {
		if err := repo.CheckName(req.Name); err != nil {
			return err
		}
		v.Config = renamed(v.Config, v.Name, req.Name)
		v.Name = req.Name
	}
	if v.State == api.ImportFailed {
		v.State, v.Reason = api.ImportStaged, ""
	}
	c.check(r.Context(), s)
	c.publishImport(s)
	return reply(w, *v)
}

// renamed changes the name in a configuration text from one model name to another; other names are left as they are.
func renamed(text, from, to string) string {
	cfg, pos, _ := modelconfig.Parse(repo.ConfigName, []byte(text))
	if cfg.GetName() != from || from == "" {
		return text
	}
	lines := strings.Split(text, "\n")
	at := pos.At("name")
	if at.Line < 1 || at.Line > len(lines) {
		return text
	}
	line := []rune(lines[at.Line-1])
	for _, quoted := range []string{`"` + from + `"`, `'` + from + `'`} {
		if i := strings.Index(string(line[min(max(at.Col-1, 0), len(line)):]), quoted); i >= 0 {
			head := string(line[:at.Col-1])
			tail := string(line[at.Col-1:])
			lines[at.Line-1] = head + tail[:i] + quoted[:1] + to + quoted[:1] + tail[i+len(quoted):]
			return strings.Join(lines, "\n")
		}
	}
	return text
}

func (c *Console) deleteImport(w http.ResponseWriter, r *http.Request) error {
	s, err := c.use(r.PathValue("id"))
	if err != nil {
		var own *apiError
		if errors.As(err, &own) && own.code == api.CodeConflict {
			if done, _ := c.imports.get(r.PathValue("id")); done != nil && done.done() {
				return errors.Join(c.imports.drop(r.PathValue("id")), noContent(w))
			}
		}
		return err
	}
	id := s.view.ID
	s.mu.Unlock()
	if err := c.imports.drop(id); err != nil {
		return err
	}
	return noContent(w)
}

func (s *staged) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.State == api.ImportLoaded
}
