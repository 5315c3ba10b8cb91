//go:build !(cuda && linux && amd64)

package app

import (
	"log/slog"

	"nereid/engine/device"
	"nereid/engine/shm"
)

// cudaMemory says that this build cannot open clients' device memory.
func cudaMemory(m *device.Machine, log *slog.Logger) (shm.Importer, func()) {
	if len(m.GPUs()) > 0 {
		log.Info("this build does not open clients' CUDA shared memory; make build makes one that does, on Linux for x86_64")
	}
	return nil, func() {}
}
