//go:build !(cuda && linux && amd64)

package backends

import (
	"nereid/engine/device"
	"nereid/engine/gpumem"
	"nereid/engine/shm"
)

// openCUDA logs that this build neither opens clients' device memory nor has memory pools for models on GPUs.
func openCUDA(m *device.Machine, o gpumem.Options) (shm.Importer, *gpumem.Memory, func()) {
	if len(m.GPUs()) > 0 {
		o.Log.Info("this build neither opens clients' CUDA shared memory nor pins memory; " +
			"make build makes one that does, on Linux for x86_64")
	}
	return nil, nil, func() {}
}
