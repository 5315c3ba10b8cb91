package model

import (
	"slices"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// roomOnGPUs answers a load onto GPUs whose memory is in use beyond their limit: --model-load-gpu-limit. A card that cannot be
// read has no room.
func (m *Model) roomOnGPUs(places []backend.Placement) error {
	for _, p := range places {
		limit, limited := m.gpuLimits[p.Device]
		if p.Kind != inferencepb.ModelInstanceGroup_KIND_GPU || !limited {
			continue
		}
		share, ok := m.machine.MemoryShare(p.Device)
		if !ok {
			return status.Errorf(status.Unavailable, "the memory of GPU %d cannot be read, and --model-load-gpu-limit sets a limit for it; model %s is not loaded", p.Device, m.name)
		}
		if share > limit {
			return status.Errorf(status.Unavailable, "memory limit set for GPU %d has exceeded, model loading is rejected: %.0f %% is in use and the limit is %.0f %% "+
				"(--model-load-gpu-limit)", p.Device, 100*share, 100*limit)
		}
	}
	return nil
}

// onGPUs is what a model has on GPUs.
type onGPUs struct {
	gpus  []int         // that its instances are on
	grown map[int]int64 // by how much their memory in use grew when it was loaded, where that could be told
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

// placed notes where the model has instances now, and what the GPUs' memory grew by as they were made. Without figures of one
// change, the sum is not known any more.
func (m *Model) placed(gpus []int, grown map[int]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := onGPUs{gpus: gpus, grown: map[int]int64{}}
	for _, i := range gpus {
		n, told := grown[i]
		before, known := m.cards.grown[i]
		if told && (known || !slices.Contains(m.cards.gpus, i)) {
			now.grown[i] = before + n
		}
	}
	m.cards = now
}

// gpuMemory returns what the model takes of each GPU, and the weakest way by which one of these figures is known.
func (m *Model) gpuMemory() (all map[int]int64, source MemorySource) {
	m.mu.Lock()
	on := m.cards
	m.mu.Unlock()
	note := func(gpu int, n int64, how MemorySource) {
		if all == nil {
			all = map[int]int64{}
		}
		all[gpu] = n
		source = Weaker(source, how)
	}
	if r, ok := m.loaded.(backend.DeviceMemoryReporter); ok {
		for gpu, n := range r.DeviceMemoryBytes() {
			note(gpu, n, FromAllocator)
		}
	}
	var groups []int // which the processes lead
	for _, p := range m.Processes() {
		if p.PID != 0 {
			groups = append(groups, p.PID)
		}
	}
	for gpu, n := range m.machine.GroupMemory(groups) {
		note(gpu, n, FromProcess)
	}
	for _, gpu := range on.gpus {
		if _, known := all[gpu]; known {
			continue
		}
		if n, ok := on.grown[gpu]; ok {
			note(gpu, n, FromDifference)
		} else {
			note(gpu, m.fileBytes, FromFiles)
		}
	}
	return all, source
}
