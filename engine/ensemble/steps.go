package ensemble

import (
	"cmp"
	"slices"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/repo"
)

// StepKey returns the key (repo.Key) of the model that a step runs. The step must be linked; see Link.
func StepKey(s *inferencepb.ModelEnsembling_Step) string {
	return repo.Key(s.GetModelNamespace(), s.GetModelName())
}

// StepKeys returns the keys of the models that the steps of cfg run: sorted, each once, and nil if cfg is no ensemble.
// The steps must be linked; see Link.
func StepKeys(cfg *inferencepb.ModelConfig) []string {
	var all []string
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		all = append(all, StepKey(s))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Decoupled reports whether the model of a step of cfg is decoupled, which makes the ensemble decoupled. Errors: those
// of models. The steps must be linked; see Link.
func Decoupled(cfg *inferencepb.ModelConfig, models Lookup) (bool, error) {
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		model, err := models(StepKey(s), stepVersion(s))
		if err != nil {
			return false, err
		}
		if model.GetModelTransactionPolicy().GetDecoupled() {
			return true, nil
		}
	}
	return false, nil
}

// stepVersion returns the version that a step runs. 0 in the configuration means that the step does not name one.
func stepVersion(s *inferencepb.ModelEnsembling_Step) int64 {
	return cmp.Or(s.GetModelVersion(), infer.LatestVersion)
}

// Link sets the namespace of a step to that of the model that it runs. have lists the namespaces with a model of that
// name, and own is the namespace of the ensemble. Link prefers the namespace that the step names, then own, then the
// only one in have. If none of these applies, it clears the step's namespace and returns false.
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
