package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"nereid/app/console/api"
	"nereid/engine/lifecycle"
	"nereid/store"
)

// SourceTune is the source of a revision that a tuning made, here or by nereid tune --apply.
const SourceTune = "tune"

// getTuningConfig answers the files of a configuration that was measured.
func (c *Console) getTuningConfig(w http.ResponseWriter, r *http.Request) error {
	t, _, err := c.tuning(r, 0)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(r.PathValue("config"))
	if err != nil {
		return fail(api.CodeNotFound, "%s is not the number of a configuration", quote(r.PathValue("config")))
	}
	texts, err := t.texts(n)
	if err != nil {
		return err
	}
	return reply(w, texts)
}

// texts are the files of a configuration.
func (t *tuningRecord) texts(config int) (api.TuningTexts, error) {
	if config < 0 || config >= len(t.Texts) {
		return api.TuningTexts{}, fail(api.CodeNotFound, "tuning %d has no configuration %d", t.Tuning.ID, config)
	}
	return t.Texts[config], nil
}

// change is a file that is to be written.
type change struct {
	st   lifecycle.ModelStatus
	p    place
	text string
}

// postTuningApply writes a configuration that was measured and reloads the model, as putConfig does. Each file must be what
// it was when it was tuned: before the first is written.
func (c *Console) postTuningApply(w http.ResponseWriter, r *http.Request) error {
	var req api.ApplyTuning
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	t, running, err := c.tuning(r, 0)
	if err != nil {
		return err
	}
	if running {
		return fail(api.CodeConflict, "tuning %d is under way; wait for its end, or stop it", t.Tuning.ID)
	}
	texts, err := t.texts(req.Config)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(t.Tuning.Trials, func(trial api.TuningTrial) bool { return trial.Config == req.Config && trial.Failed == "" }) {
		return fail(api.CodeInvalid, "this configuration did not work; it is not applied")
	}
	if len(texts.Texts) == 0 {
		return fail(api.CodeInvalid, "this is the configuration as it was; there is nothing to apply")
	}
	list := slices.Clone(texts.Texts)
	slices.SortFunc(list, func(a, b api.TuningText) int { return strings.Compare(a.Model, b.Model) }) // the order of locks
	var changes []change
	for _, text := range list {
		name := c.beside(t.Tuning.Model, text.Model)
		unlock := c.locks.lock(name)
		defer unlock()
		ch, err := c.tunedChange(r, name, text)
		if err != nil {
			return err
		}
		changes = append(changes, ch)
	}
	var out api.AppliedTuning
	for _, ch := range changes {
		saved, err := c.saveConfig(r.Context(), ch.st, ch.p, store.Revision{Model: ch.st.Name, Source: SourceTune, Before: ch.p.text, After: &ch.text})
		if err != nil {
			if len(out.Saves) > 0 {
				err = fmt.Errorf("%w; the configuration of %q is written already, undo it by its revision %d", err, out.Saves[0].Revision.Model, out.Saves[0].Revision.ID)
			}
			return err
		}
		out.Saves = append(out.Saves, saved)
	}
	t.Tuning.Applied, t.Tuning.AppliedConfig = out.Saves[len(out.Saves)-1].Revision.ID, req.Config
	row, err := t.row()
	if err == nil {
		err = c.o.Store.SetTuning(r.Context(), row)
	}
	if err != nil {
		c.log.Warn("it is not kept that a tuning was applied", "model", t.Tuning.Model, "err", err)
	}
	return reply(w, out)
}

// tunedChange checks that a file is what was tuned. The model's lock is held.
func (c *Console) tunedChange(r *http.Request, name string, text api.TuningText) (change, error) {
	st, p, err := c.locate(name)
	if err != nil {
		return change{}, err
	}
	if err := changeable(name, p); err != nil {
		return change{}, err
	}
	if _, err := c.syncRevision(r.Context(), name, p); err != nil {
		return change{}, err
	}
	was := ""
	if p.text != nil {
		was = *p.text
	}
	if was == text.After {
		return change{}, fail(api.CodeConflict, "the configuration of %q is in place already", name)
	}
	if was != text.Before {
		return change{}, fail(api.CodeConflict, "the configuration of %q was changed since it was tuned, so that the figures are of another one; "+
			"nothing is changed: tune it again, or take the changes over by hand", name)
	}
	return change{st, p, text.After}, nil
}
