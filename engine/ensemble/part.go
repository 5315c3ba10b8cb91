package ensemble

import (
	"slices"

	"nereid/engine/inferencepb"
	"nereid/engine/repo"
)

// Part returns the key of a step's model (repo.Key). The step is linked: its namespace is that of its model.
func Part(s *inferencepb.ModelEnsembling_Step) string {
	return repo.Key(s.GetModelNamespace(), s.GetModelName())
}

// Parts returns the keys of the models of an ensemble's steps, each once, sorted; none if cfg is no ensemble. Its steps
// are linked.
func Parts(cfg *inferencepb.ModelConfig) []string {
	var all []string
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		all = append(all, Part(s))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Link sets a step's namespace to that of the model that it runs, of those that have a model of its name: the one that
// the step names, else own, the ensemble's, else the only one. It reports whether there is one; if not, the namespace
// is empty.
func Link(s *inferencepb.ModelEnsembling_Step, own string, have []string) bool {
	given := repo.Namespace(s.GetModelNamespace())
	s.ModelNamespace = ""
	switch {
	case given != "" && slices.Contains(have, given):
		s.ModelNamespace = given
	case own != "" && slices.Contains(have, own):
		s.ModelNamespace = own
	case len(have) == 1:
		s.ModelNamespace = have[0]
	default:
		return false
	}
	return true
}
