package inspect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/ensemble"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// Report is what is wrong with repositories.
type Report struct {
	Models   []ModelReport `json:"models"` // by name
	Errors   int           `json:"errors"`
	Warnings int           `json:"warnings"`
	// Repositories that cannot be read, with the reason.
	Unread map[string]string `json:"unread,omitempty"`
}

// ModelReport is what is wrong with one model. Places are paths of files or folders.
type ModelReport struct {
	Name     string             `json:"name"`
	Folder   string             `json:"folder"`
	Versions []int64            `json:"versions"`
	Faults   modelconfig.Faults `json:"faults"`
}

// Repositories checks all models of the repositories. It returns no error: the report has what could not be read.
func Repositories(ctx context.Context, roots []string, o Options) Report {
	found, unread := repo.Scan(repo.Options{Roots: roots, ConfigName: o.ConfigName, Namespaces: o.Namespaces})
	r := Report{Models: []ModelReport{}}
	for root, err := range unread {
		if r.Unread == nil {
			r.Unread = map[string]string{}
		}
		r.Unread[root] = err.Error()
		r.Errors++
	}
	models := map[string]*model{}
	for name, src := range found {
		models[name] = o.look(ctx, src)
	}
	for _, m := range models {
		m.link(models)
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		models[name].graph(models)
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		m := models[name]
		r.Errors += len(m.faults.Errors())
		r.Warnings += len(m.faults.Warnings())
		slices.SortStableFunc(m.faults, func(a, b modelconfig.Fault) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
		})
		all := m.faults
		if all == nil {
			all = modelconfig.Faults{}
		}
		r.Models = append(r.Models, ModelReport{Name: name, Folder: m.src.Folder, Versions: m.src.Numbers(),
			Faults: all})
	}
	return r
}

// link sets the namespaces of an ensemble's steps.
func (m *model) link(models map[string]*model) {
	own, _ := repo.Split(m.src.Key)
	for _, s := range m.cfg.GetEnsembleScheduling().GetStep() {
		var have []string // none without namespaces
		for key := range models {
			if namespace, name := repo.Split(key); namespace != "" && name == s.GetModelName() {
				have = append(have, namespace)
			}
		}
		ensemble.Link(s, own, have)
	}
}

// graph checks an ensemble against the models of its steps. The faults of a step's model are not reported again.
func (m *model) graph(models map[string]*model) {
	steps := m.cfg.GetEnsembleScheduling().GetStep()
	if len(steps) == 0 || m.faults.Err() != nil {
		return
	}
	if cycle := cycleFrom(models, []string{m.src.Key}, map[string]bool{}); cycle != nil {
		m.fault(modelconfig.SeverityError, "ensemble_scheduling",
			"circular dependency between ensembles: "+strings.Join(cycle, " -> "), "take one of the steps out")
		return
	}
	for i, s := range steps {
		part := models[ensemble.StepKey(s)]
		at := "ensemble_scheduling.step[" + strconv.Itoa(i) + "].model_name"
		switch {
		case part == nil:
			m.fault(modelconfig.SeverityError, at, "the step's model '"+s.GetModelName()+"' is in none of the "+
				"repositories", "add it, or correct the name")
			return
		case part.cfg == nil || part.faults.Err() != nil && part.cfg.GetEnsembleScheduling() == nil:
			m.fault(modelconfig.SeverityWarning, at, "the step's model '"+s.GetModelName()+"' has faults of its "+
				"own; whether it fits is not checked", "")
			return
		case len(part.cfg.GetInput()) == 0 || len(part.cfg.GetOutput()) == 0:
			return // its code says what it takes
		}
	}
	_, err := ensemble.New(ensemble.Options{Config: m.cfg, Models: func(name string,
		version int64) (*inferencepb.ModelConfig, error) {
		part := models[name]
		if part == nil || version > 0 && !slices.Contains(part.src.Numbers(), version) {
			return nil, status.Errorf(status.NotFound, "there is no version %d of model '%s'", version, name)
		}
		return part.cfg, nil
	}})
	if err != nil {
		m.fault(modelconfig.SeverityError, "ensemble_scheduling", err.Error(), "")
	}
}

// cycleFrom returns a cycle that is reachable from the path, nil if there is none. clear holds the models from which no
// cycle is reachable.
func cycleFrom(models map[string]*model, path []string, clear map[string]bool) []string {
	m := models[path[len(path)-1]]
	if m == nil || m.cfg == nil {
		return nil
	}
	for _, s := range m.cfg.GetEnsembleScheduling().GetStep() {
		dep := ensemble.StepKey(s)
		if clear[dep] {
			continue
		}
		way := append(slices.Clone(path), dep)
		if slices.Contains(path, dep) {
			return way
		}
		if found := cycleFrom(models, way, clear); found != nil {
			return found
		}
		clear[dep] = true
	}
	return nil
}
