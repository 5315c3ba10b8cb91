//go:build cuda && linux && amd64

package app

import (
	"log/slog"

	"nereid/engine/device"
	"nereid/engine/device/cuda"
	"nereid/engine/shm"
)

// cudaMemory returns what opens clients' device memory, nil on a machine without GPUs, and how it is let go. The driver is
// loaded when the first region comes.
func cudaMemory(m *device.Machine, log *slog.Logger) (shm.Importer, func()) {
	if len(m.GPUs()) == 0 {
		return nil, func() {}
	}
	d := cuda.New(log)
	return d, d.Close
}
