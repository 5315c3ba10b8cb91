package model

import (
	"slices"
	"sync"

	"nereid/engine/backend"
	"nereid/engine/device"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// gpuUse is what a model has on GPUs.
type gpuUse struct {
	machine *device.Machine
	limits  map[int]float64 // see Spec.GPULimits

	mu    sync.Mutex
	on    []int         // guarded by mu: the GPUs of its instances
	grown map[int]int64 // guarded by mu: by how much their memory in use grew when it was loaded, where that is known
}

// checkRoom refuses a load onto GPUs whose memory is in use beyond their limit (--model-load-gpu-limit). A card that
// cannot be read has no room.
func (g *gpuUse) checkRoom(model string, places []backend.Placement) error {
	for _, p := range places {
		limit, limited := g.limits[p.Device]
		if p.Kind != inferencepb.ModelInstanceGroup_KIND_GPU || !limited {
			continue
		}
		share, ok := g.machine.MemoryShare(p.Device)
		if !ok {
			return status.Errorf(status.Unavailable,
				"the memory of GPU %d cannot be read, and --model-load-gpu-limit sets a limit for it; model %s is "+
					"not loaded",
				p.Device, model)
		}
		if share > limit {
			return status.Errorf(status.Unavailable,
				"memory limit set for GPU %d has exceeded, model loading is rejected: "+
					"%.0f %% is in use and the limit is %.0f %% (--model-load-gpu-limit)", p.Device, 100*share,
				100*limit)
		}
	}
	return nil
}

// gpusOf lists the GPUs of placements.
func gpusOf(places []backend.Placement) (gpus []int) {
	for _, p := range places {
		if p.Kind == inferencepb.ModelInstanceGroup_KIND_GPU && !slices.Contains(gpus, p.Device) {
			gpus = append(gpus, p.Device)
		}
	}
	return gpus
}

// watch measures by how much the memory of the GPUs of placements grows until the result is called with success.
func (g *gpuUse) watch(places []backend.Placement) (end func(ok bool)) {
	gpus := gpusOf(places)
	w := g.machine.Watch(gpus)
	return func(ok bool) {
		if grown := w.End(); ok {
			g.placed(gpus, grown)
		}
	}
}

// placed notes where the model has instances now, and by how much the GPUs' memory grew as they were made. If that is
// not known of one change, the sum is not known any more.
func (g *gpuUse) placed(gpus []int, grown map[int]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := map[int]int64{}
	for _, i := range gpus {
		n, measured := grown[i]
		before, known := g.grown[i]
		if measured && (known || !slices.Contains(g.on, i)) {
			now[i] = before + n
		}
	}
	g.on, g.grown = gpus, now
}

// memory returns what the model takes of each GPU, and the least exact way by which one of these figures is known.
// Where nothing reports the memory it is fileBytes.
func (g *gpuUse) memory(loaded backend.Model, fileBytes int64) (all map[int]int64, source MemorySource) {
	g.mu.Lock()
	on, grown := g.on, g.grown
	g.mu.Unlock()
	note := func(gpu int, n int64, how MemorySource) {
		if all == nil {
			all = map[int]int64{}
		}
		all[gpu] = n
		source = Weaker(source, how)
	}
	if r, ok := loaded.(backend.DeviceMemoryReporter); ok {
		for gpu, n := range r.DeviceMemoryBytes() {
			note(gpu, n, FromAllocator)
		}
	}
	var groups []int // each process leads a process group
	for _, p := range processes(loaded) {
		if p.PID != 0 {
			groups = append(groups, p.PID)
		}
	}
	for gpu, n := range g.machine.GroupMemory(groups) {
		note(gpu, n, FromProcess)
	}
	for _, gpu := range on {
		if _, known := all[gpu]; known {
			continue
		}
		if n, ok := grown[gpu]; ok {
			note(gpu, n, FromDifference)
		} else {
			note(gpu, fileBytes, FromFiles)
		}
	}
	return all, source
}
