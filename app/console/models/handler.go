package models

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/configs"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/store"
)

// Handler serves the routes about models. All fields but Deleted are needed.
type Handler struct {
	Engine   *engine.Engine
	Catalog  *catalog.Catalog
	Checker  *configs.Checker
	Writer   *configs.Writer
	Watcher  *Watcher
	Trash    *Trash
	Store    *store.Store
	Recorder *history.Recorder
	Log      *slog.Logger
	// Deleted is called when a model was deleted; nil: nobody is.
	Deleted func(ctx context.Context, model string) error
}

// List lists all models.
func (h *Handler) List(*http.Request) (api.Models, error) {
	h.Engine.Residency() // measures the memory of the models
	return api.Models{Models: h.Catalog.All()}, nil
}

// Get returns one model with its files and configurations.
func (h *Handler) Get(r *http.Request) (out api.ModelDetail, err error) {
	name := r.PathValue("name")
	defer h.Catalog.Lock(name)()
	h.Engine.Residency() // measures the memory of the models
	m, err := h.Catalog.Find(name)
	if err != nil {
		return out, err
	}
	return h.detail(r.Context(), m)
}

// detail returns all that the page shows of a model. The model's lock is held.
func (h *Handler) detail(ctx context.Context, m catalog.Model) (api.ModelDetail, error) {
	d := api.ModelDetail{Model: h.Catalog.View(m), Labels: map[string]api.List[string]{}}
	if m.Text != nil {
		d.ConfigText = *m.Text
	}
	if m.Folder != "" {
		var err error
		if d.Files, err = folders.List(m.Folder); err != nil {
			return d, err
		}
		d.Writable = m.Writable()
		d.OtherVersions = m.OtherVersions()
		d.Provenance = m.Provenance()
	}
	head, err := h.Writer.Sync(ctx, m)
	if err != nil {
		return d, err
	}
	d.Revision = head.ID
	cfg := m.Status.Config
	if running := catalog.Running(m.Status); running != nil {
		cfg = running
		d.Effective = json.RawMessage(modelconfig.MarshalJSON(running))
		d.RunningText = h.Watcher.RunningText(m.Status)
		if catalog.Failed(m.Status) && m.Folder != "" && d.ConfigText != d.RunningText {
			d.Failed = h.failed(ctx, m, head.ID)
		}
	}
	if cfg == nil && m.Folder != "" { // never loaded: show what a load would make of it
		cfg = h.Checker.Check(ctx, m.Name, m.Folder, m.Text).Config
		d.Backend, d.Platform, d.MaxBatchSize = cfg.GetBackend(), cfg.GetPlatform(), int(cfg.GetMaxBatchSize())
	}
	if cfg != nil {
		d.CompletedText = modelconfig.Format(cfg)
		d.Inputs, d.Outputs = catalog.Tensors(cfg, h.Checker.DimNames(ctx, m.Name, m.Folder, cfg))
		d.Labels = m.OutputLabels(cfg)
	}
	return d, nil
}

// failed describes the configuration on disk, which did not load. revision is that of the change that brought it.
func (h *Handler) failed(ctx context.Context, m catalog.Model, revision int64) *api.FailedConfig {
	out := &api.FailedConfig{Revision: revision}
	checked := h.Checker.Check(ctx, m.Name, m.Folder, m.Text)
	if cfg := checked.Config; cfg != nil {
		out.Readable = true
		out.MaxBatchSize, out.DynamicBatching = int(cfg.GetMaxBatchSize()), cfg.GetDynamicBatching() != nil
		out.Inputs, out.Outputs = catalog.Tensors(cfg, checked.DimNames())
	}
	return out
}

// Load loads or reloads a model. It goes on when the page is closed. A load that fails is a reply, not an error.
func (h *Handler) Load(r *http.Request) (api.LoadResult, error) {
	return h.change(r.PathValue("name"), func(name string) error {
		return h.Engine.Reload(context.WithoutCancel(r.Context()), name)
	})
}

// Unload takes a model out of service.
func (h *Handler) Unload(r *http.Request) (api.LoadResult, error) {
	return h.change(r.PathValue("name"), func(name string) error {
		h.Engine.Remove(name)
		return nil
	})
}

// LoadVersion loads one version, whatever the version policy says.
func (h *Handler) LoadVersion(r *http.Request) (api.LoadResult, error) {
	return h.changeVersion(r, func(name string, version int64) error {
		return h.Engine.ReloadVersion(context.WithoutCancel(r.Context()), name, version)
	})
}

// UnloadVersion takes one version out of service.
func (h *Handler) UnloadVersion(r *http.Request) (api.LoadResult, error) {
	return h.changeVersion(r, h.Engine.RemoveVersion)
}

// changeVersion is change for the version that a path names.
func (h *Handler) changeVersion(r *http.Request, f func(name string, version int64) error) (api.LoadResult, error) {
	version, ok := repo.ParseVersion(r.PathValue("version"))
	if !ok {
		return api.LoadResult{}, rest.Errorf(api.CodeNotFound, "%s is not the number of a version",
			rest.Quote(r.PathValue("version")))
	}
	return h.change(r.PathValue("name"), func(name string) error { return f(name, version) })
}

// change loads or unloads a model under its lock and returns the model afterwards.
func (h *Handler) change(name string, f func(name string) error) (out api.LoadResult, err error) {
	defer h.Catalog.Lock(name)()
	if _, err := h.Catalog.Find(name); err != nil {
		return out, err
	}
	loadErr := f(name)
	h.Catalog.Changed()
	m, err := h.Catalog.Find(name)
	if err != nil {
		return out, err
	}
	out = api.LoadResult{OK: loadErr == nil, Model: h.Catalog.View(m)}
	if loadErr != nil {
		out.Reason = strings.TrimSpace(loadErr.Error())
		out.KeepsServing = catalog.Running(m.Status) != nil
	}
	return out, nil
}

// pinKey is the prefix of the settings that keep whether a model is pinned.
const pinKey = "pin:"

// Pins reads which models the page has pinned or unpinned.
func Pins(ctx context.Context, s *store.Store) (map[string]bool, error) {
	all, err := s.Settings(ctx)
	if err != nil {
		return nil, err
	}
	pins := map[string]bool{}
	for key, value := range all {
		if name, ok := strings.CutPrefix(key, pinKey); ok {
			pins[name] = string(value) == "true"
		}
	}
	return pins, nil
}

// Pin pins a model in memory, or unpins it.
func (h *Handler) Pin(r *http.Request, req *api.SetPin) (out api.Model, err error) {
	name := r.PathValue("name")
	if _, err := h.Catalog.Find(name); err != nil {
		return out, err
	}
	if err := h.Store.SetSetting(r.Context(), pinKey+name, []byte(strconv.FormatBool(req.Pinned))); err != nil {
		return out, err
	}
	h.Engine.Pin(name, &req.Pinned)
	h.Catalog.Changed()
	m, err := h.Catalog.Find(name)
	if err != nil {
		return out, err
	}
	return h.Catalog.View(m), nil
}

// Delete takes a model out of service and moves its folder to the trash.
func (h *Handler) Delete(r *http.Request) (out api.Trashed, err error) {
	name := r.PathValue("name")
	defer h.Catalog.Lock(name)()
	m, err := h.Catalog.FindWithFolder(name)
	if err != nil {
		return out, err
	}
	if m.Copied || !folders.Writable(m.Repository) {
		return out, rest.Errorf(api.CodeForbidden,
			"the repository %s cannot be written; remove the model's folder by hand", m.Repository)
	}
	h.Engine.Remove(name) // first, so that polling does not find a model whose files disappear
	if _, err := h.Writer.Sync(r.Context(), m); err != nil {
		return out, err
	}
	if out, err = h.Trash.Put(name, m.Folder, m.Folder); err != nil {
		if catalog.Running(m.Status) != nil { // it stays where it is
			err = errors.Join(err, h.Engine.Reload(context.WithoutCancel(r.Context()), name))
		}
		return out, err
	}
	h.Writer.Note(r.Context(), store.Revision{Model: name, Source: store.SourceDelete, Before: m.Text})
	h.Recorder.Event(history.Event{Kind: history.ModelDeleted, Model: name, Text: "moved to the trash from " +
		m.Folder})
	h.Catalog.Changed()
	if h.Deleted != nil {
		return out, h.Deleted(context.WithoutCancel(r.Context()), name)
	}
	return out, nil
}

// ListTrash lists the models in the trash.
func (h *Handler) ListTrash(*http.Request) (out api.Trash, err error) {
	out.Items, err = h.Trash.list()
	return out, err
}

// Restore moves a model from the trash back to its repository and loads it.
func (h *Handler) Restore(r *http.Request) (item api.Trashed, err error) {
	found, err := h.Trash.get(r.PathValue("id"))
	if err != nil {
		return item, err
	}
	item = found.Trashed
	defer h.Catalog.Lock(item.Model)()
	if err := h.Trash.restore(found); err != nil {
		return item, err
	}
	if text, err := catalog.ReadConfig(filepath.Join(item.From, repo.ConfigName)); err == nil {
		deleted, _ := h.Store.FileRevision(r.Context(), item.Model)
		rev := store.Revision{Model: item.Model, Source: store.SourceRestore, After: text}
		if deleted.Source == store.SourceDelete {
			rev.Restores = deleted.ID
		}
		h.Writer.Note(r.Context(), rev)
	}
	h.Recorder.Event(history.Event{Kind: history.ModelRestored, Model: item.Model, Text: "back from the trash in " +
		item.From})
	if err := h.Engine.Reload(context.WithoutCancel(r.Context()), item.Model); err != nil {
		h.Log.Warn("a model that came back from the trash does not load", "model", item.Model, "err", err)
	}
	h.Catalog.Changed()
	return item, nil
}
