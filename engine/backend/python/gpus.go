package python

import (
	"fmt"
	"strconv"

	"nereid/engine/backend"
	"nereid/engine/device"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// visibility is which GPUs the process of an instance sees.
type visibility string

const (
	// seesAll: those that the server sees, by the same numbers, as with Triton. The model chooses the one that
	// model_instance_device_id names.
	seesAll visibility = "all"
	// seesOwn: an instance on a GPU sees only that GPU, as number 0; an instance on the CPU sees none. So a model that
	// asks for "cuda" gets the right GPU.
	seesOwn visibility = "instance"
)

const (
	visibleSetting = "visible-gpus"
	visibleDevices = "CUDA_VISIBLE_DEVICES"
)

func parseVisibility(v string) (visibility, error) {
	switch visibility(v) {
	case seesAll, seesOwn:
		return visibility(v), nil
	}
	return "", fmt.Errorf("%q is neither all nor instance", v)
}

// visibilityOf returns the value of a model's parameter VISIBLE_GPUS, else the backend's setting.
func visibilityOf(cfg *inferencepb.ModelConfig, s settings) (visibility, error) {
	p, ok := cfg.GetParameters()["VISIBLE_GPUS"]
	if !ok {
		return s.visible, nil
	}
	v, err := parseVisibility(p.GetStringValue())
	if err != nil {
		return "", status.Errorf(status.InvalidArg, "parameter VISIBLE_GPUS of model '%s': %w", cfg.GetName(), err)
	}
	return v, nil
}

var (
	_ backend.GPUUser = (*Backend)(nil)
	_ backend.GPUUser = (*based)(nil)
)

// UsesGPUs returns true, as with Triton, whether or not the model's code uses a GPU: a model without an instance group
// has an instance on each GPU.
func (b *Backend) UsesGPUs() bool { return true }

// UsesGPUs returns true for backends in the backend directory, and for the server's own ones whose packages use GPUs.
func (b *based) UsesGPUs() bool { return b.file != "" || b.name == "pytorch" }

// deviceVars returns the environment variables that limit the GPUs of an instance's process; nil: it sees the server's.
func (m *model) deviceVars(p backend.Placement) []string {
	if m.visible != seesOwn {
		return nil
	}
	if p.Kind != inferencepb.ModelInstanceGroup_KIND_GPU {
		return []string{visibleDevices + "="}
	}
	return []string{visibleDevices + "=" + device.CUDAName(p.Device)}
}

// deviceID returns the argument model_instance_device_id of initialize.
func (m *model) deviceID(p backend.Placement) string {
	if m.visible == seesOwn {
		return "0"
	}
	return strconv.Itoa(p.Device)
}
