package tuning

import (
	"encoding/json"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/store"
)

// record is a tuning as the store keeps it.
type record struct {
	Tuning api.Tuning
	// Texts are the files of Tuning.Configs.
	Texts api.List[api.TuningTexts]
	// Files identifies the files in the model's version folders when the tuning began; "": an older program wrote it.
	Files string
}

// row returns the record as a row of the store.
func (t *record) row() (store.Tuning, error) {
	head, err := json.Marshal(t.Tuning.TuningHead)
	if err != nil {
		return store.Tuning{}, err
	}
	body, err := json.Marshal(t)
	return store.Tuning{
		ID: t.Tuning.ID, Model: t.Tuning.Model, StartedUS: t.Tuning.StartedMs * 1000, Head: head, Body: body,
	}, err
}

// skip removes the trials before from.
func (t *record) skip(from int) {
	t.Tuning.From = min(max(from, 0), len(t.Tuning.Trials))
	t.Tuning.Trials = t.Tuning.Trials[t.Tuning.From:]
}

// texts returns the files of a configuration.
func (t *record) texts(config int) (api.TuningTexts, error) {
	if config < 0 || config >= len(t.Texts) {
		return api.TuningTexts{}, rest.Errorf(api.CodeNotFound,
			"tuning %d has no configuration %d", t.Tuning.ID, config)
	}
	return t.Texts[config], nil
}

// add adds an event of the search.
func (t *record) add(e Event) {
	u := &t.Tuning
	if e.Plan != nil {
		u.Plan, u.Most = *e.Plan, e.Plan.Most
	}
	if e.Config != nil {
		u.Configs = append(u.Configs, api.TuningConfig{Changes: e.Config.Changes})
		t.Texts = append(t.Texts, api.TuningTexts{Texts: e.Config.Texts})
	}
	if e.Trial != nil {
		u.Trials, u.Now = append(u.Trials, *e.Trial), nil
		u.Measured = len(u.Trials)
		u.Best, u.Present, u.BestChanges = trialAt(u.Trials, e.Best), trialAt(u.Trials, e.Present), nil
		if u.Best != nil {
			u.BestChanges = u.Configs[u.Best.Config].Changes
		}
	}
	if e.Now != nil {
		u.Now = e.Now
	}
}

// trialAt returns a copy of a trial, nil for the index -1.
func trialAt(trials []api.TuningTrial, i int) *api.TuningTrial {
	if i < 0 {
		return nil
	}
	return new(trials[i])
}

// markStopped marks a tuning that the store has as running although its server has ended.
func markStopped(h *api.TuningHead) {
	if h.State == api.TuningRunning {
		h.State, h.Reason = api.TuningStopped, "the server ended before the search did"
	}
}
