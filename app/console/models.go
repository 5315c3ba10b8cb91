package console

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/staging"
	"nereid/app/history"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/store"
)

func (c *Console) getModels(w http.ResponseWriter, _ *http.Request) error {
	c.o.Engine.Residency() // measures: models grow as they work
	return reply(w, api.Models{Models: c.allModels()})
}

func (c *Console) getModel(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	unlock := c.locks.lock(name)
	defer unlock()
	c.o.Engine.Residency() // measures: models grow as they work
	st, p, err := c.locate(name)
	if err != nil {
		return err
	}
	d, err := c.detail(r.Context(), st, p)
	if err != nil {
		return err
	}
	return reply(w, d)
}

// detail is all about one model. The model's lock is held.
func (c *Console) detail(ctx context.Context, st lifecycle.ModelStatus, p place) (api.ModelDetail, error) {
	d := api.ModelDetail{Model: c.view(st, p), Labels: map[string]api.List[string]{}}
	if p.text != nil {
		d.ConfigText = *p.text
	}
	if p.folder != "" {
		var err error
		if d.Files, err = files(p.folder); err != nil {
			return d, err
		}
		d.Writable = p.writable()
		d.OtherVersions = otherVersions(st, p)
	}
	head, err := c.syncRevision(ctx, st.Name, p)
	if err != nil {
		return d, err
	}
	d.Revision = head.ID
	cfg := st.Config
	if running := runningConfig(st); running != nil {
		cfg = running
		d.Effective = json.RawMessage(modelconfig.MarshalJSON(running))
		d.RunningText = c.texts.of(st)
	}
	if cfg == nil && p.folder != "" { // never tried: what it would be
		draft := c.draft(ctx, st.Name, p.folder, p.text)
		cfg = draft.cfg
		d.Backend, d.Platform, d.MaxBatchSize = cfg.GetBackend(), cfg.GetPlatform(), int(cfg.GetMaxBatchSize())
	}
	if cfg != nil {
		d.CompletedText = modelconfig.Format(cfg)
		d.Inputs, d.Outputs = tensors(cfg, c.dimNames(ctx, st.Name, p.folder, cfg))
		for _, out := range cfg.GetOutput() {
			if file := out.GetLabelFilename(); file != "" && p.folder != "" {
				d.Labels[out.GetName()] = labels(p.folder, file)
			}
		}
	}
	return d, nil
}

// runningConfig is the configuration that serves; nil if nothing does.
func runningConfig(st lifecycle.ModelStatus) *inferencepb.ModelConfig {
	for i := len(st.Versions) - 1; i >= 0; i-- {
		if m := st.Versions[i].Model; m != nil {
			return m.Config()
		}
		if st.Versions[i].Evicted {
			return st.Config
		}
	}
	return nil
}

func files(folder string) ([]api.File, error) {
	list, err := staging.ListFiles(folder)
	if err != nil {
		return nil, err
	}
	return apiFiles(list), nil
}

func apiFiles(list []staging.File) (out []api.File) {
	for _, f := range list {
		file := api.File{Path: f.Path, SizeBytes: f.Size}
		if !f.Mod.IsZero() {
			file.ModMs = f.Mod.UnixMilli()
		}
		out = append(out, file)
	}
	return out
}

// labels reads a label file; nil if it cannot be read, which the load says better.
func labels(folder, file string) []string {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	b, err := root.ReadFile(filepath.FromSlash(file))
	if err != nil {
		return nil
	}
	text := strings.TrimRight(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (c *Console) postLoad(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	unlock := c.locks.lock(name)
	defer unlock()
	if _, _, err := c.locate(name); err != nil {
		return err
	}
	// A reload goes on when the page is closed: half a load helps nobody.
	return c.loadResult(w, name, c.o.Engine.Reload(context.WithoutCancel(r.Context()), name))
}

func (c *Console) loadResult(w http.ResponseWriter, name string, loadErr error) error {
	c.ModelsChanged()
	st, p, err := c.locate(name)
	if err != nil {
		return err
	}
	out := api.LoadResult{OK: loadErr == nil, Model: c.view(st, p)}
	if loadErr != nil {
		out.Reason = strings.TrimSpace(loadErr.Error())
		out.KeepsServing = runningConfig(st) != nil
	}
	return reply(w, out)
}

func (c *Console) postUnload(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	unlock := c.locks.lock(name)
	defer unlock()
	if _, _, err := c.locate(name); err != nil {
		return err
	}
	c.o.Engine.Remove(name)
	return c.loadResult(w, name, nil)
}

// sourceDelete is the source of a revision that says that the model's folder went to the trash.
const sourceDelete = "delete"

// note stores a revision of a change that is made already; an error is logged.
func (c *Console) note(ctx context.Context, rev store.Revision) {
	rev.Outcome = cmp.Or(rev.Outcome, string(api.SaveSaved))
	if _, err := c.o.Store.AddRevision(context.WithoutCancel(ctx), rev); err != nil {
		c.log.Warn("a change of a model is not recorded", "model", rev.Model, "err", err)
	}
}

// inService returns the versions of a model in service, ascending.
func (c *Console) inService(name string) (all []int64) {
	st, _ := c.o.Engine.Model(name)
	for _, v := range st.Versions {
		if v.State == lifecycle.Ready {
			all = append(all, v.Version)
		}
	}
	return all
}

// deleteModel takes a model out of service and moves its folder to the trash.
func (c *Console) deleteModel(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	unlock := c.locks.lock(name)
	defer unlock()
	_, p, err := c.locate(name)
	if err != nil {
		return err
	}
	if p.folder == "" {
		return fail(api.CodeNotFound, "model %q has no folder in a repository", name)
	}
	if p.copied || !writable(p.repository) {
		return fail(api.CodeForbidden, "the repository %s cannot be written; remove the model's folder by hand", p.repository)
	}
	// First out of service, so that polling does not find a model whose files go away under it.
	c.o.Engine.Remove(name)
	if _, err := c.syncRevision(r.Context(), name, p); err != nil {
		return err
	}
	item, err := c.trash.put(name, p.folder, p.folder)
	if err != nil {
		return err
	}
	c.note(r.Context(), store.Revision{Model: name, Source: sourceDelete, Before: p.text})
	c.o.Recorder.Event(history.Event{Kind: history.ModelDeleted, Model: name, Text: "moved to the trash from " + p.folder})
	c.ModelsChanged()
	return reply(w, item)
}

func (c *Console) getTrash(w http.ResponseWriter, _ *http.Request) error {
	items, err := c.trash.list()
	if err != nil {
		return err
	}
	return reply(w, api.Trash{Items: items})
}

func (c *Console) postTrashRestore(w http.ResponseWriter, r *http.Request) error {
	item, err := c.trash.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	unlock := c.locks.lock(item.Model)
	defer unlock()
	if err := c.trash.restore(item); err != nil {
		return err
	}
	if text, err := readText(filepath.Join(item.From, repo.ConfigName)); err == nil {
		gone, _ := c.o.Store.FileRevision(r.Context(), item.Model)
		rev := store.Revision{Model: item.Model, Source: "restore", After: text}
		if gone.Source == sourceDelete {
			rev.Restores = gone.ID
		}
		c.note(r.Context(), rev)
	}
	c.o.Recorder.Event(history.Event{Kind: history.ModelRestored, Model: item.Model, Text: "back from the trash in " + item.From})
	if err := c.o.Engine.Reload(context.WithoutCancel(r.Context()), item.Model); err != nil {
		c.log.Warn("a model that came back from the trash does not load", "model", item.Model, "err", err)
	}
	c.ModelsChanged()
	return reply(w, item)
}
