package instance

import (
	"fmt"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// Placements lists the instances that a normalised configuration asks for, in order. KIND_AUTO becomes KIND_CPU on a
// machine without GPUs. It returns InvalidArg for GPUs that the machine does not have.
func Placements(cfg *inferencepb.ModelConfig, defaultCount int) ([]backend.Placement, error) {
	shared := cfg.GetParameters()["intra_op_thread_count"] == nil
	groups := cfg.GetInstanceGroup()
	if len(groups) == 0 {
		groups = []*inferencepb.ModelInstanceGroup{{Count: int32(defaultCount)}}
	}
	var all []backend.Placement
	for gi, g := range groups {
		name := g.GetName()
		if name == "" {
			name = fmt.Sprintf("%s_%d", cfg.GetName(), gi)
		}
		kind := g.GetKind()
		switch kind {
		case inferencepb.ModelInstanceGroup_KIND_AUTO:
			kind = inferencepb.ModelInstanceGroup_KIND_CPU
		case inferencepb.ModelInstanceGroup_KIND_GPU:
			return nil, status.Errorf(status.InvalidArg, "instance group %s of model %s asks for KIND_GPU, and this server "+
				"has no GPU that it can use; set kind: KIND_CPU or KIND_AUTO in config.pbtxt", name, cfg.GetName())
		case inferencepb.ModelInstanceGroup_KIND_CPU, inferencepb.ModelInstanceGroup_KIND_MODEL:
		default:
			return nil, status.Errorf(status.InvalidArg, "instance group %s of model %s has unknown kind %v", name, cfg.GetName(), kind)
		}
		count := int(g.GetCount())
		if count == 0 {
			count = defaultCount
		}
		for i := range count {
			all = append(all, backend.Placement{Name: fmt.Sprintf("%s_%d", name, i), Kind: kind, SharedThreads: shared, RateLimiter: g.GetRateLimiter()})
		}
	}
	return all, nil
}
