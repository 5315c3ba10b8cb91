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
	// seesAll: those that the server sees, by the same numbers, as with Triton. The model puts itself on the one that
	// model_instance_device_id names.
	seesAll visibility = "all"
	// seesOwn: an instance on a GPU sees that one alone, as number 0, and others see none; so that code that asks for
	// "cuda" lands on the right card.
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

// visibilityOf returns what a model's parameter VISIBLE_GPUS asks for, else the backend's setting.
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

// UsesGPUs is true, as with Triton, whether or not the model's code uses a GPU: a model without an instance group has
// an instance on each.
func (b *Backend) UsesGPUs() bool { return true }

// UsesGPUs is true for backends of the backend directory, and for the server's own unless their packages are for CPUs.
func (b *based) UsesGPUs() bool { return b.file != "" || b.name == "pytorch" }

// deviceVars returns the variables with which the process of an instance sees its GPUs; nil: it sees those of the
// server.
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
