//go:build cpuonly

package backends

import (
	"log/slog"

	"nereid/app/options"
	"nereid/engine/device"
)

// OpenMachine finds no GPUs. NVML's binding leaves symbols undefined until the driver is loaded. A library with such
// symbols can neither be linked by a program nor opened by Python.
func OpenMachine(_ *options.Config, log *slog.Logger) *device.Machine {
	log.Info("there are no GPUs; models run on the CPU", "why", "this build is for the CPU")
	return nil
}
