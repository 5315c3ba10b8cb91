package imports

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/configs"
	"nereid/app/console/imports/staging"
	"nereid/app/console/models"
	"nereid/app/console/rest"
	"nereid/app/console/stream"
	"nereid/app/console/tasks"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/system/proc"
	modelssample "nereid/models-sample"
)

// Options of a Handler. All fields but Limits are needed.
type Options struct {
	DataDir  string // absolute path; staged imports are in a folder of it
	Limits   staging.Limits
	Engine   *engine.Engine
	Catalog  *catalog.Catalog
	Checker  *configs.Checker
	Writer   *configs.Writer
	Recorder *history.Recorder
	Trash    *models.Trash
	Streams  *stream.Hub
	Tasks    *tasks.Group
	Log      *slog.Logger
}

// Handler serves the routes about imports.
type Handler struct {
	Options

	mu     sync.Mutex
	staged map[string]*staged // by ID; guarded by mu
}

// New makes a Handler. It removes the imports that an earlier process left, and finishes or undoes those that it was
// putting into a repository. The engine has loaded no model yet.
func New(o Options) (*Handler, error) {
	dir := filepath.Join(o.DataDir, "imports")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	h := &Handler{Options: o, staged: map[string]*staged{}}
	h.cleanUp()
	return h, nil
}

// Close removes all imports. The tasks have ended.
func (h *Handler) Close() error {
	h.mu.Lock()
	ids := slices.Collect(maps.Keys(h.staged))
	h.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, h.drop(id))
	}
	return errors.Join(errs...)
}

// Staged returns the name that the model of an import will have, and the folder where it is staged.
func (h *Handler) Staged(id string) (name, folder string, err error) {
	s, err := h.get(id)
	if err != nil {
		return "", "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Name, s.dir, nil
}

// publish sends the import's state to the page. s.mu is held.
func (h *Handler) publish(s *staged) { h.Streams.Publish("import", s.view) }

// Create makes an import: an empty one for uploads, or one of a file or folder of this machine.
func (h *Handler) Create(r *http.Request, req *api.ImportCreate) (out api.Import, err error) {
	if len(h.Catalog.Repositories) == 0 {
		return out, rest.Errorf(api.CodeUnsupported,
			"there is no model repository to import into; start with --model-repository")
	}
	if req.Path != "" {
		return h.createFromPath(r.Context(), filepath.Clean(req.Path))
	}
	if req.Sample != "" {
		return h.createFromSample(r.Context(), req.Sample)
	}
	if free, ok := proc.FreeBytes(h.DataDir); ok && req.TotalBytes > 0 && uint64(req.TotalBytes) > free {
		return out, rest.Errorf(api.CodeTooLarge, "the model has %d bytes, but only %d are free in %s", req.TotalBytes,
			free, h.DataDir)
	}
	s, err := h.add(api.ImportUpload, req.Source)
	if err != nil {
		return out, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.publish(s)
	return s.view, nil
}

// createFromPath stages a file or folder of this machine.
func (h *Handler) createFromPath(ctx context.Context, path string) (api.Import, error) {
	if err := staging.CheckPath(path, h.DataDir); err != nil {
		return api.Import{}, err
	}
	if err := staging.LooksLikeModel(path); err != nil {
		return api.Import{}, err
	}
	s, err := h.add(api.ImportPath, filepath.Base(path))
	if err != nil {
		return api.Import{}, err
	}
	v, err := h.fill(ctx, s, func(area *staging.Area) error { return area.CopyFrom(path) })
	if err != nil {
		return api.Import{}, errors.Join(err, h.drop(v.ID))
	}
	return v, nil
}

// createFromSample stages a sample model of the program.
func (h *Handler) createFromSample(ctx context.Context, name string) (api.Import, error) {
	samples := modelssample.Embedded()
	if _, err := fs.Stat(samples, path.Join(name, repo.ConfigName)); err != nil {
		return api.Import{}, rest.Errorf(api.CodeNotFound, "there is no sample model %s", rest.Quote(name))
	}
	s, err := h.add(api.ImportUpload, name)
	if err != nil {
		return api.Import{}, err
	}
	v, err := h.fill(ctx, s, func(area *staging.Area) error {
		return fs.WalkDir(samples, name, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			f, err := samples.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			return area.Put(p, f)
		})
	})
	if err != nil {
		return api.Import{}, errors.Join(err, h.drop(v.ID))
	}
	return v, nil
}

// fill puts the files of a model into an import, and arranges them.
func (h *Handler) fill(ctx context.Context, s *staged, put func(*staging.Area) error) (api.Import, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := put(s.area)
	if err == nil {
		err = h.arrange(ctx, s)
	}
	if err == nil {
		h.publish(s)
	}
	return s.view, err
}

// Get returns an import.
func (h *Handler) Get(r *http.Request) (out api.Import, err error) {
	s, err := h.get(r.PathValue("id"))
	if err != nil {
		return out, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = time.Now()
	return s.view, nil
}

// PutFile stores one file of an upload. Files may arrive concurrently.
func (h *Handler) PutFile(r *http.Request) error {
	s, err := h.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	area, err := s.startFile()
	if err != nil {
		return err
	}
	defer s.endFile()
	return area.Put(r.PathValue("path"), r.Body)
}

// Analyze arranges what was uploaded as a model folder.
func (h *Handler) Analyze(r *http.Request) (out api.Import, err error) {
	s, err := h.use(r.PathValue("id"))
	if err != nil {
		return out, err
	}
	defer s.mu.Unlock()
	if err := h.arrange(r.Context(), s); err != nil {
		return out, err
	}
	h.publish(s)
	return s.view, nil
}

// Configure changes the name, the repository or the configuration of an import.
func (h *Handler) Configure(r *http.Request, req *api.ImportConfig) (out api.Import, err error) {
	s, err := h.use(r.PathValue("id"))
	if err != nil {
		return out, err
	}
	defer s.mu.Unlock()
	if s.dir == "" {
		return out, rest.Errorf(api.CodeConflict, "the import is not analysed yet")
	}
	v := &s.view
	if req.Repository != "" {
		if !slices.Contains(h.Catalog.Repositories, req.Repository) {
			return out, rest.Errorf(api.CodeInvalid, "%s is not a model repository of this server (%s)",
				rest.Quote(req.Repository), strings.Join(h.Catalog.Repositories, ", "))
		}
		v.Repository = req.Repository
	}
	if req.Config != "" && req.Config != v.Config {
		v.Config, s.edited, v.ConfigGenerated = req.Config, true, false
	}
	if req.Name != "" && req.Name != v.Name {
		if err := repo.CheckName(req.Name); err != nil {
			return out, err
		}
		v.Config = modelconfig.Rename(v.Config, v.Name, req.Name)
		v.Name = req.Name
	}
	if v.State == api.ImportFailed {
		v.State, v.Reason = api.ImportStaged, ""
	}
	if err := h.check(r.Context(), s); err != nil {
		return out, err
	}
	h.publish(s)
	return *v, nil
}

// Delete removes an import, unless it is being committed.
func (h *Handler) Delete(r *http.Request) error {
	id := r.PathValue("id")
	s, err := h.get(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	committing := s.view.State == api.ImportCommitting
	s.mu.Unlock()
	if committing {
		return errCommitting
	}
	return h.drop(id)
}
