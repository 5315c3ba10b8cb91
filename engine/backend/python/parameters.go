package python

import (
	"maps"
	"slices"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/worker/process"
)

var (
	_ backend.ParameterValidator = (*Backend)(nil)
	_ backend.ParameterValidator = (*based)(nil)
)

// ValidateParameters implements backend.ParameterValidator. Unknown parameters are the model's own.
func (b *Backend) ValidateParameters(cfg *inferencepb.ModelConfig) (all []backend.ParameterRemark) {
	for _, name := range slices.Sorted(maps.Keys(cfg.GetParameters())) {
		var err error
		value := cfg.GetParameters()[name].GetStringValue()
		if name == "VISIBLE_GPUS" {
			_, err = parseVisibility(value)
		} else {
			_, err = new(process.Limits).SetParameter(name, value)
		}
		if err != nil {
			all = append(all, backend.ParameterRemark{Name: name, Text: err.Error(), Refused: true})
		}
	}
	return all
}
