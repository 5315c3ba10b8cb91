package model

import (
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
