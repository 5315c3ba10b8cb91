package runtime

import (
	"maps"
	"slices"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/worker/process"
)

var _ backend.ParameterValidator = (*Backend)(nil)

// known lists the parameters of the frameworks' models by backend. Those of process.Limits are valid too.
var known = map[string][]string{
	modelconfig.BackendTensorFlow: {
		"MAX_SESSION_SHARE_COUNT", "TF_GRAPH_TAG", "TF_INIT_OPS_FILE", "TF_NUM_INTER_THREADS", "TF_NUM_INTRA_THREADS",
		"TF_SIGNATURE_DEF", "TF_USE_PER_SESSION_THREADS",
	},
	modelconfig.BackendOpenVINO: {
		"COMPILATION_NUM_THREADS", "CPU_EXTENSION_PATH", "CPU_THREADS_NUM", "CPU_THROUGHPUT_STREAMS",
		"ENABLE_BATCH_PADDING", "ENFORCE_BF16", "HINT_BF16", "INFERENCE_NUM_THREADS", "NUM_STREAMS",
		"PERFORMANCE_HINT", "RESHAPE_IO_LAYERS", "SKIP_OV_DYNAMIC_BATCHSIZE", "TARGET_DEVICE",
	},
}

// ValidateParameters implements backend.ParameterValidator. Names that are not in capitals are not checked.
func (b *Backend) ValidateParameters(cfg *inferencepb.ModelConfig) (all []backend.ParameterRemark) {
	for _, name := range slices.Sorted(maps.Keys(cfg.GetParameters())) {
		if name != strings.ToUpper(name) {
			continue
		}
		alone := &inferencepb.ModelConfig{Parameters: map[string]*inferencepb.ModelParameter{
			name: cfg.GetParameters()[name],
		}}
		bounds, err := new(process.Limits).SetParameter(name, parameter(cfg, name))
		switch {
		case bounds:
		case !slices.Contains(known[b.f.name], name):
			all = append(all, backend.ParameterRemark{Name: name,
				Text: "is unknown to the backend " + b.f.name, Known: known[b.f.name]})
		case b.f.name == modelconfig.BackendTensorFlow:
			_, err = sessionConfig(alone, nil)
		default:
			_, err = parseOpenVINO(alone)
		}
		if err != nil {
			all = append(all, backend.ParameterRemark{Name: name, Text: err.Error(), Refused: true})
		}
	}
	return all
}
