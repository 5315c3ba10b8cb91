//go:build !(cuda && linux && amd64)

package app

import (
	"nereid/engine/device"
	"nereid/engine/gpumem"
	"nereid/engine/shm"
)

// openCUDA says that this build opens neither clients' device memory nor pools for models on GPUs.
func openCUDA(m *device.Machine, o gpumem.Options) (shm.Importer, *gpumem.Memory, func()) {
	if len(m.GPUs()) > 0 {
		o.Log.Info("this build neither opens clients' CUDA shared memory nor pins memory; make build makes one that does, on Linux for x86_64")
	}
	return nil, nil, func() {}
}
