package configs

import (
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"nereid/app/console/catalog"
	"nereid/engine/ensemble"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// checkSteps adds what a load of an ensemble would say about the models of its steps. These are warnings: the models
// can be added and changed later. ensembleKey is the name by which the engine knows the ensemble.
func (c *Checker) checkSteps(d *Checked, ensembleKey string) {
	steps := d.Config.GetEnsembleScheduling().GetStep()
	if c.Catalog == nil || len(steps) == 0 || len(d.faults.Errors()) > 0 {
		return
	}
	running := map[string]*inferencepb.ModelConfig{}
	for i, s := range steps {
		at := "ensemble_scheduling.step[" + strconv.Itoa(i) + "]"
		m, err := c.Catalog.Find(c.Catalog.Composing(ensembleKey, s.GetModelName()))
		if err != nil {
			fix := "import it first"
			if near := modelconfig.Suggest(s.GetModelName(), c.otherNames(ensembleKey)); near != "" {
				fix = "did you mean " + strconv.Quote(near) + "?"
			}
			text := fmt.Sprintf("step %d runs model %q, which is not there; the ensemble does not load without it",
				i, s.GetModelName())
			d.warn(at+".model_name", text, fix)
			continue
		}
		if n := s.GetModelVersion(); n > 0 && !slices.Contains(m.Versions(), n) {
			d.warn(at+".model_version", fmt.Sprintf("model %q of step %d has no version %d", s.GetModelName(), i, n),
				"use -1 for the latest version")
			continue
		}
		running[s.GetModelName()] = catalog.Running(m.Status)
	}
	cfg := proto.CloneOf(d.Config)
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		if s.ModelNamespace = ""; running[s.GetModelName()] == nil {
			return // its inputs and outputs are not known
		}
	}
	_, err := ensemble.New(ensemble.Options{Config: cfg, Models: func(name string, _ int64) (
		*inferencepb.ModelConfig, error) {
		return running[name], nil
	}})
	if err != nil {
		d.warn("ensemble_scheduling", err.Error(), "")
	}
}

// otherNames returns the names of the models that a step may name.
func (c *Checker) otherNames(ensembleKey string) (all []string) {
	for _, m := range c.Catalog.All() {
		if _, name := repo.Split(m.Name); m.Name != ensembleKey {
			all = append(all, name)
		}
	}
	return all
}

func (d *Checked) warn(path, message, fix string) {
	f := d.fault(path, message, fix)
	f.Severity = modelconfig.SeverityWarning
	d.faults = append(d.faults, f)
}
