//go:build cuda && linux && amd64

package backends

import (
	"nereid/engine/device"
	"nereid/engine/device/cuda"
	"nereid/engine/gpumem"
	"nereid/engine/shm"
)

// openCUDA returns what opens clients' device memory, the memory pools for models on GPUs, and a function that releases
// both. The first two are nil on a machine without GPUs. The driver is loaded when one of them is needed.
func openCUDA(m *device.Machine, o gpumem.Options) (shm.Importer, *gpumem.Memory, func()) {
	if len(m.GPUs()) == 0 {
		return nil, nil, func() {}
	}
	d := cuda.New(o.Log)
	o.Driver, o.GPUs = d, len(m.GPUs())
	pools := gpumem.New(o)
	return d, pools, func() { pools.Close(); d.Close() }
}
