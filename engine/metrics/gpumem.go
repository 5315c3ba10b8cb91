package metrics

import (
	"maps"
	"slices"
	"strconv"

	"nereid/engine/gpumem"
)

// gpuMemory writes what became of the memory through which tensors reach GPUs.
func (e *Exporter) gpuMemory(w *writer) {
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	s := gpumem.Stats{Pinned: gpumem.PoolStats{Total: e.o.PinnedBytes}}
	if e.o.GPUMemory != nil {
		s = e.o.GPUMemory.Stats()
	}
	w.family("nv_pinned_memory_pool_total_bytes", "Pinned memory pool total memory size, in bytes", "gauge")
	w.plain("nv_pinned_memory_pool_total_bytes", whole(s.Pinned.Total))
	w.family("nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes", "gauge")
	w.plain("nv_pinned_memory_pool_used_bytes", whole(s.Pinned.Used))
	if e.o.GPUMemory == nil || e.o.OmitOwn {
		return
	}
	w.family("nereid_pinned_memory_pool_misses_total", "Tensors that went through ordinary memory because the pool of pinned memory had no room", "counter")
	w.plain("nereid_pinned_memory_pool_misses_total", whole(s.Pinned.Misses))
	for _, f := range []struct {
		name, help, kind string
		value            func(p gpumem.PoolStats) int64
	}{
		{"nereid_cuda_memory_pool_total_bytes", "Bound of the memory on a GPU in which batches are put together, in bytes", "gauge", func(p gpumem.PoolStats) int64 { return p.Total }},
		{"nereid_cuda_memory_pool_used_bytes", "What of it is in use, in bytes", "gauge", func(p gpumem.PoolStats) int64 { return p.Used }},
		{"nereid_cuda_memory_pool_misses_total", "Batches that went through the host because it had no room", "counter", func(p gpumem.PoolStats) int64 { return p.Misses }},
	} {
		w.family(f.name, f.help, f.kind)
		for _, gpu := range slices.Sorted(maps.Keys(s.Devices)) {
			w.start(f.name, "gpu", strconv.Itoa(gpu))
			w.end(whole(f.value(s.Devices[gpu])))
		}
	}
	w.family("nereid_cuda_bound_bytes_total", "Bytes of tensors that models on GPUs read and wrote where clients have them", "counter")
	w.start("nereid_cuda_bound_bytes_total", "tensors", "input")
	w.end(whole(s.BoundInputs))
	w.start("nereid_cuda_bound_bytes_total", "tensors", "output")
	w.end(whole(s.BoundOutputs))
	w.family("nereid_cuda_copied_bytes_total", "Bytes of clients' CUDA regions that were copied: to the host, from it, or within a GPU, where batches are put together too", "counter")
	w.start("nereid_cuda_copied_bytes_total", "way", "to_host")
	w.end(whole(s.Traffic.ToHost))
	w.start("nereid_cuda_copied_bytes_total", "way", "from_host")
	w.end(whole(s.Traffic.FromHost))
	w.start("nereid_cuda_copied_bytes_total", "way", "within")
	w.end(whole(s.Traffic.Within))
}
