package tunecmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nereid/app/tune"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// result is what a search found.
type result struct {
	names   []string // of the models that were tuned together
	models  []modelFolder
	present map[string]*inferencepb.ModelConfig // completed by the server, by model

	space tune.Space
	goal  tune.Goal
	mode  string // quick or brute
	rate  bool   // the load is requests per second
	batch int
	top   int // configurations to show
	gpus  int

	began, ended time.Time
	cancelled    bool
	found        *tune.Result
	ranked       []tune.Trial
	baseline     tune.Trial
	hasBaseline  bool
	serverOnly   *tune.Measurement // of a server without models; nil: it was not measured
}

// model is the first of the models.
func (r *result) model() string { return r.names[0] }

// title names all models.
func (r *result) title() string { return strings.Join(r.names, " and ") }

// rank orders the trials by the goal.
func (r *result) rank() {
	r.ranked = tune.Rank(&r.space, &r.goal, r.found.Trials)
	r.baseline, r.hasBaseline = tune.Baseline(&r.space, &r.goal, r.found.Trials)
}

// best is the best configuration that keeps the constraints: the present one if none is better. ok is false if none
// does.
func (r *result) best() (best tune.Trial, ok bool) {
	if len(r.ranked) == 0 || !r.goal.Keeps(&r.ranked[0].Measurement) {
		return tune.Trial{}, false
	}
	return r.ranked[0], true
}

// shown are the best configurations, without the present one.
func (r *result) shown() (out []tune.Trial) {
	for _, t := range r.ranked {
		if len(out) < r.top && !r.space.IsPresent(t.Candidate) {
			out = append(out, t)
		}
	}
	return out
}

// configOf is the text of a model's configuration with a candidate's changes.
func (r *result) configOf(m *modelFolder, c tune.Candidate) (string, error) {
	return configText(m.config, r.present[m.name], changesOf(r.space.Changes(c), m.name))
}

// completed is a candidate's configuration of a model, with what the server completed of the present one.
func (r *result) completed(model string, c tune.Candidate) (*inferencepb.ModelConfig, error) {
	present := r.present[model]
	text, err := configText(modelconfig.Format(present), present, changesOf(r.space.Changes(c), model))
	if err != nil {
		return nil, err
	}
	cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(text))
	return cfg, faults.Err()
}

// variants are the measured configurations in the order of measuring.
func (r *result) variants() (out []string) {
	for _, t := range r.found.Trials {
		if v := r.space.Variant(t.Candidate); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// variantName is model_analyzer's name of a configuration: numbered in the order of measuring.
func (r *result) variantName(c tune.Candidate) string {
	if r.space.IsPresent(c) {
		return r.model() + "_config_default"
	}
	present := r.space.Variant(r.space.Start())
	others := slices.DeleteFunc(r.variants(), func(v string) bool { return v == present })
	n := slices.Index(others, r.space.Variant(c))
	if n < 0 {
		n = len(others)
	}
	return fmt.Sprintf("%s_config_%d", r.model(), n)
}

// variantText describes a candidate's configuration by its changes.
func (r *result) variantText(c tune.Candidate) string {
	changes := r.space.Changes(c)
	if len(changes) == 0 {
		return "present configuration"
	}
	words := make([]string, len(changes))
	for i, ch := range changes {
		words[i] = r.changeText(ch)
	}
	return strings.Join(words, ", ")
}

// changeText is the text of a change, with the model's name unless it is the only one that is tuned.
func (r *result) changeText(c tune.Change) string {
	if c.Model != r.model() || len(r.names) > 1 {
		return c.Model + ": " + changeText(c)
	}
	return changeText(c)
}

func (r *result) loadText(c tune.Candidate) string {
	if r.rate {
		return fmt.Sprintf("%d requests/s", r.space.LoadOf(c))
	}
	return fmt.Sprintf("concurrency %d", r.space.LoadOf(c))
}

func (r *result) loadName() string {
	if r.rate {
		return "requests/s"
	}
	return "concurrency"
}

// figures is a measurement in one line.
func figures(m *tune.Measurement) string {
	if m.Failed != "" {
		return "failed: " + m.Failed
	}
	text := fmt.Sprintf("%.1f infer/s, p99 %s", m.Throughput, msText(m.P99))
	if !m.Stable {
		text += " (windows differ)"
	}
	return text
}

func msText(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Nanoseconds())/1e6) }
