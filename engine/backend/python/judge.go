package python

import (
	"maps"
	"slices"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/worker"
)

var (
	_ backend.ParameterJudge = (*Backend)(nil)
	_ backend.ParameterJudge = (*based)(nil)
)

// JudgeParameters implements backend.ParameterJudge. Those that it does not know are the model's own.
func (b *Backend) JudgeParameters(cfg *inferencepb.ModelConfig) (all []backend.ParameterRemark) {
	for _, name := range slices.Sorted(maps.Keys(cfg.GetParameters())) {
		var err error
		value := cfg.GetParameters()[name].GetStringValue()
		switch {
		case name == "VISIBLE_GPUS":
			_, err = parseVisibility(value)
		case name == strings.ToUpper(name):
			_, err = new(worker.Limits).Set(strings.ReplaceAll(strings.ToLower(name), "_", "-"), value)
		}
		if err != nil {
			all = append(all, backend.ParameterRemark{Name: name, Text: err.Error(), Refused: true})
		}
	}
	return all
}
