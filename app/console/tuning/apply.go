package tuning

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/rest"
	"nereid/engine/repo"
	"nereid/store"
)

// Config returns the files of a configuration that was measured.
func (h *Handler) Config(r *http.Request) (out api.TuningTexts, err error) {
	t, _, err := h.find(r, 0)
	if err != nil {
		return out, err
	}
	n, err := strconv.Atoi(r.PathValue("config"))
	if err != nil {
		return out, rest.Errorf(api.CodeNotFound, "%s is not the number of a configuration",
			rest.Quote(r.PathValue("config")))
	}
	return t.texts(n)
}

// change is a file to write.
type change struct {
	model catalog.Model
	text  string
}

// Apply writes a configuration that was measured and reloads the models. Every file must still be what was measured;
// this is checked before the first is written.
func (h *Handler) Apply(r *http.Request, req *api.ApplyTuning) (out api.AppliedTuning, err error) {
	t, stop, err := h.find(r, 0)
	if err != nil {
		return out, err
	}
	if stop != nil {
		return out, rest.Errorf(api.CodeConflict, "tuning %d is under way; wait for its end, or stop it", t.Tuning.ID)
	}
	texts, err := t.texts(req.Config)
	if err != nil {
		return out, err
	}
	if !slices.ContainsFunc(t.Tuning.Trials, func(trial api.TuningTrial) bool {
		return trial.Config == req.Config && trial.Failed == ""
	}) {
		return out, rest.Errorf(api.CodeInvalid, "this configuration did not work; it is not applied")
	}
	if h.stale(&t) == api.TuningStaleFiles {
		return out, rest.Errorf(api.CodeConflict, "the files of the model %q have changed since it was tuned, so that "+
			"the figures are of another one: tune it again", t.Tuning.Model)
	}
	if len(texts.Texts) == 0 {
		return out, rest.Errorf(api.CodeInvalid, "this is the configuration as it was; there is nothing to apply")
	}
	list := slices.Clone(texts.Texts)
	slices.SortFunc(list, func(a, b api.TuningText) int { return strings.Compare(a.Model, b.Model) }) // the lock order
	var changes []change
	for _, text := range list {
		name := h.Catalog.Composing(t.Tuning.Model, text.Model)
		defer h.Catalog.Lock(name)()
		c, err := h.change(r.Context(), name, text)
		if err != nil {
			return out, err
		}
		changes = append(changes, c)
	}
	for _, c := range changes {
		saved, err := h.Writer.Save(r.Context(), c.model, store.Revision{Source: store.SourceTune, After: &c.text})
		if err != nil {
			if len(out.Saves) > 0 {
				first := out.Saves[0].Revision
				err = fmt.Errorf("%w; the configuration of %q is written already, undo it by its revision %d",
					err, first.Model, first.ID)
			}
			return out, err
		}
		out.Saves = append(out.Saves, saved)
	}
	t.Tuning.Applied, t.Tuning.AppliedConfig = out.Saves[len(out.Saves)-1].Revision.ID, req.Config
	h.keep(r.Context(), &t)
	return out, nil
}

// change checks that a file is what was measured. The model's lock is held.
func (h *Handler) change(ctx context.Context, name string, text api.TuningText) (change, error) {
	m, err := h.Catalog.Find(name)
	if err != nil {
		return change{}, err
	}
	if err := m.CheckEditable(); err != nil {
		return change{}, err
	}
	if _, err := h.Writer.Sync(ctx, m); err != nil {
		return change{}, err
	}
	was := ""
	if m.Text != nil {
		was = *m.Text
	}
	switch was {
	case text.After:
		return change{}, rest.Errorf(api.CodeConflict, "the configuration of %q is in place already", name)
	case text.Before:
		return change{m, text.After}, nil
	}
	return change{}, rest.Errorf(api.CodeConflict,
		"the configuration of %q was changed since it was tuned, so that the figures "+
			"are of another one; nothing is changed: tune it again, or take the changes over by hand", name)
}

// files identifies the files in the version folders of a model, by what the file system knows about them.
func files(m catalog.Model) string {
	versions := repo.ScanModel(m.Repository, filepath.Base(m.Folder), "").Versions
	var text strings.Builder
	for _, n := range slices.Sorted(maps.Keys(versions)) {
		fmt.Fprintf(&text, "%d:%x ", n, versions[n])
	}
	return text.String()
}

// stale says what has changed since a tuning began. The configuration may be one that was applied since.
func (h *Handler) stale(t *record) api.TuningStale {
	m, err := h.Catalog.FindWithFolder(t.Tuning.Model)
	if err != nil {
		return api.TuningCurrent // there is no model to apply it to
	}
	if t.Files != "" && t.Files != files(m) {
		return api.TuningStaleFiles
	}
	now := ""
	if m.Text != nil {
		now = *m.Text
	}
	for _, texts := range t.Texts {
		for _, text := range texts.Texts {
			if text.Model == filepath.Base(m.Folder) && text.Before != now {
				return api.TuningStaleConfig
			}
		}
	}
	return api.TuningCurrent
}
