package onnxruntime

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/worker/process"
)

var _ backend.ParameterValidator = (*Backend)(nil)

// counts are the parameters whose value is an integer of 0 or more, switches those whose value is true or false.
var (
	counts   = []string{"intra_op_thread_count", "inter_op_thread_count", "execution_mode"}
	switches = []string{"enable_mem_arena", "enable_mem_pattern"}
)

// ValidateParameters implements backend.ParameterValidator.
func (b *Backend) ValidateParameters(cfg *inferencepb.ModelConfig) (all []backend.ParameterRemark) {
	refuse := func(name, format string, args ...any) {
		all = append(all, backend.ParameterRemark{Name: name, Refused: true, Text: fmt.Sprintf(format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.GetParameters())) {
		value := cfg.GetParameters()[name].GetStringValue()
		switch {
		case slices.Contains(counts, name):
			n, err := count(value)
			switch mode := name == "execution_mode"; {
			case mode && (err != nil || n > 1):
				refuse(name, "is %q; want 0 (sequential) or 1 (parallel)", value)
			case !mode && err != nil:
				refuse(name, "is %q; want a number from 0 to %d", value, maxThreads)
			}
		case slices.Contains(switches, name):
			if _, err := parseBool(value); err != nil {
				refuse(name, "%v", err)
			}
		case name == isolationParameter:
			if _, err := isolationOf(cfg); err != nil {
				refuse(name, "%v", err)
			}
		case isLimit(name):
			if _, err := new(process.Limits).SetParameter(name, value); err != nil {
				refuse(name, "%v", err)
			}
		case strings.HasPrefix(name, "session."), strings.HasPrefix(name, "ep."),
			slices.Contains(otherParameters, name):
		default:
			all = append(all, backend.ParameterRemark{Name: name, Text: "has no effect in onnxruntime",
				Known: slices.Concat(counts, switches, otherParameters)})
		}
	}
	return all
}

// isLimit reports whether a parameter limits the processes of a model, which only a model in processes has.
func isLimit(name string) bool {
	known, _ := new(process.Limits).SetParameter(name, "1")
	return known
}
