package tuning

import (
	"context"

	"nereid/app/console/api"
	"nereid/engine/inferencepb"
)

// Tuner searches for the best configurations of models. It measures them in servers that it starts.
type Tuner interface {
	// Plan returns what a search would try. An error is the request's.
	Plan(m Model, r *api.StartTuning) (api.TuningPlan, error)
	// Tune searches until it is finished or ctx is done. It calls see with each event, never concurrently. When Tune
	// returns, everything that it started has ended.
	Tune(ctx context.Context, m Model, r *api.StartTuning, see func(Event)) error
}

// Model is a model to tune.
type Model struct {
	Name         string   // of its folder
	With         []string // the folders of models that are tuned at the same time
	Repositories []string // folders; the first one has the model
	// Config returns the completed configuration of the model or of one of its composing models; nil: not known.
	Config func(name string) *inferencepb.ModelConfig
}

// Event is a step of a search. Fields that are nil have nothing new.
type Event struct {
	Plan *api.TuningPlan // what the models turned out to allow, before the first trial
	Now  *api.TuningNow
	// Trial is a new trial. Config comes with the first trial of a configuration, at the index that Trial names.
	Trial  *api.TuningTrial
	Config *Config
	// Best and Present are indexes of trials, -1 for none. They are valid with Trial.
	Best, Present int
}

// Config is a configuration, and those of its files that differ from the present ones.
type Config struct {
	Changes []api.TuningChange
	Texts   []api.TuningText
}
