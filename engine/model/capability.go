package model

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"nereid/engine/device"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
)

// FileForDevices chooses the file of cc_model_filenames for the compute capability of the GPUs that a configuration's
// instance groups run on: the result names it as default_model_filename. Without such a GPU, and for a capability that
// the map does not have, the file is the default one, and the result is cfg itself. cfg is not changed; its groups need
// not be normalised. Errors: Unsupported when the groups' GPUs need different files, as a backend loads one.
func FileForDevices(cfg *inferencepb.ModelConfig, machine *device.Machine,
	o modelconfig.NormalizeOptions) (*inferencepb.ModelConfig, error) {
	if len(cfg.GetCcModelFilenames()) == 0 {
		return cfg, nil
	}
	normal := proto.Clone(cfg).(*inferencepb.ModelConfig)
	modelconfig.Normalize(normal, o)
	files := map[string]string{} // by file, on what
	for _, g := range normal.GetInstanceGroup() {
		if g.GetKind() != inferencepb.ModelInstanceGroup_KIND_GPU {
			if g.GetKind() == inferencepb.ModelInstanceGroup_KIND_CPU {
				files[""] = "the CPU"
			}
			continue
		}
		for _, gpu := range machine.GPUs() {
			if slices.Contains(g.GetGpus(), int32(gpu.Index)) {
				capability := strconv.Itoa(gpu.Major) + "." + strconv.Itoa(gpu.Minor)
				files[cfg.GetCcModelFilenames()[capability]] = "GPU " + strconv.Itoa(gpu.Index) +
					" with compute capability " + capability
			}
		}
	}
	if len(files) > 1 {
		var parts []string
		for _, file := range slices.Sorted(maps.Keys(files)) {
			parts = append(parts, files[file]+" needs "+cmp.Or(file, cfg.GetDefaultModelFilename(), "the default file"))
		}
		return nil, status.Errorf(status.Unsupported,
			"cc_model_filenames of model '%s' has different files for its instances: %s; make a model for each",
			cfg.GetName(), strings.Join(parts, ", "))
	}
	for file := range files {
		if file != "" {
			chosen := proto.Clone(cfg).(*inferencepb.ModelConfig)
			chosen.DefaultModelFilename = file
			return chosen, nil
		}
	}
	return cfg, nil
}
