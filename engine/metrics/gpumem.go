package metrics

import (
	"maps"
	"slices"
	"strconv"

	"nereid/engine/gpumem"
)

// gpuMemory writes the families of the memory through which tensors reach GPUs.
func (e *Exporter) gpuMemory(w *writer) {
	s := gpumem.Stats{Pinned: gpumem.PoolStats{Total: e.o.PinnedBytes}}
	if e.o.GPUMemory != nil {
		s = e.o.GPUMemory.Stats()
	}
	w.single("nv_pinned_memory_pool_total_bytes", "Pinned memory pool total memory size, in bytes", "gauge",
		whole(s.Pinned.Total), nil)
	w.single("nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes", "gauge",
		whole(s.Pinned.Used), nil)
	if e.o.GPUMemory == nil || e.o.OmitOwn {
		return
	}
	w.single("nereid_pinned_memory_pool_misses_total",
		"Tensors that went through ordinary memory because the pool of pinned memory had no room", "counter",
		whole(s.Pinned.Misses), nil)
	for _, f := range []struct {
		name, help, kind string
		value            func(p gpumem.PoolStats) int64
	}{
		{"nereid_cuda_memory_pool_total_bytes",
			"Bound of the memory on a GPU in which batches are put together, in bytes",
			"gauge", func(p gpumem.PoolStats) int64 { return p.Total }},
		{"nereid_cuda_memory_pool_used_bytes", "What of it is in use, in bytes",
			"gauge", func(p gpumem.PoolStats) int64 { return p.Used }},
		{"nereid_cuda_memory_pool_misses_total", "Batches that went through the host because it had no room",
			"counter", func(p gpumem.PoolStats) int64 { return p.Misses }},
	} {
		w.family(f.name, f.help, f.kind)
		for _, gpu := range slices.Sorted(maps.Keys(s.Devices)) {
			w.start(f.name, "gpu", strconv.Itoa(gpu))
			w.end(whole(f.value(s.Devices[gpu])))
		}
	}
	labelled := func(name, label, value string, n int64) {
		w.start(name, label, value)
		w.end(whole(n))
	}
	const bound, copied = "nereid_cuda_bound_bytes_total", "nereid_cuda_copied_bytes_total"
	w.family(bound, "Bytes of tensors that models on GPUs read and wrote where clients have them", "counter")
	labelled(bound, "tensors", "input", s.BoundInputs)
	labelled(bound, "tensors", "output", s.BoundOutputs)
	w.family(copied, "Bytes of clients' CUDA regions that were copied: to the host, from it, or within a GPU, "+
		"where batches are put together too", "counter")
	labelled(copied, "way", "to_host", s.Traffic.ToHost)
	labelled(copied, "way", "from_host", s.Traffic.FromHost)
	labelled(copied, "way", "within", s.Traffic.Within)
}
