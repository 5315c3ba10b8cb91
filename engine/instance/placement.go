package instance

import (
	"cmp"
	"fmt"
	"slices"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
)

// Placements lists the instances that a normalised configuration asks for, in order: of a KIND_GPU group as many as its
// count on each of its GPUs. gpus are the numbers of those that models may use. KIND_AUTO, which normalising resolves,
// is KIND_CPU here. An instance is named after its group, its number in it and its GPU: "m_0_1_gpu2". policies are the
// host policies by name; a name that there is no policy of restricts nothing, as in Triton. Errors: InvalidArg for GPUs
// that the machine does not have, and where no instance would take requests.
func Placements(cfg *inferencepb.ModelConfig, defaultCount int, gpus []int32,
	policies map[string]affinity.Policy) ([]backend.Placement, error) {
	shared := cfg.GetParameters()["intra_op_thread_count"] == nil
	groups := cfg.GetInstanceGroup()
	if len(groups) == 0 {
		groups = []*inferencepb.ModelInstanceGroup{{Count: int32(defaultCount)}}
	}
	var all []backend.Placement
	working := false
	for gi, g := range groups {
		p := backend.Placement{
			Name: cmp.Or(g.GetName(), fmt.Sprintf("%s_%d", cfg.GetName(), gi)),
			Kind: g.GetKind(), SharedThreads: shared, RateLimiter: g.GetRateLimiter(), Passive: g.GetPassive(),
			Profiles: g.GetProfile(), SecondaryDevices: g.GetSecondaryDevices(),
		}

		some, err := placeGroup(cfg, g, p, cmp.Or(int(g.GetCount()), defaultCount), gpus)
		if err != nil {
			return nil, err
		}
		working = working || !p.Passive
		for i := range some {
			some[i].Affinity = policies[some[i].HostPolicy]
		}
		all = append(all, some...)
	}
	if !working {
		return nil, status.Errorf(status.InvalidArg,
			"every instance group of model %s is passive, so nothing would run its requests; leave passive out of one",
			cfg.GetName())
	}
	return all, nil
}

// placeGroup lists the instances of a group; p is what they have in common.
func placeGroup(cfg *inferencepb.ModelConfig, g *inferencepb.ModelInstanceGroup, p backend.Placement, count int,
	gpus []int32) (all []backend.Placement, err error) {
	group := p.Name
	switch p.Kind {
	case inferencepb.ModelInstanceGroup_KIND_AUTO:
		p.Kind = inferencepb.ModelInstanceGroup_KIND_CPU
	case inferencepb.ModelInstanceGroup_KIND_CPU, inferencepb.ModelInstanceGroup_KIND_MODEL:
	case inferencepb.ModelInstanceGroup_KIND_GPU:
		return placeOnGPUs(cfg, g, p, count, gpus)
	default:
		return nil, status.Errorf(status.InvalidArg, "instance group %s of model %s has unknown kind %v", group,
			cfg.GetName(), p.Kind)
	}
	p.HostPolicy = cmp.Or(g.GetHostPolicy(), "cpu")
	if p.Kind == inferencepb.ModelInstanceGroup_KIND_MODEL {
		p.HostPolicy = cmp.Or(g.GetHostPolicy(), "model")
	}
	for i := range count {
		p.Name = fmt.Sprintf("%s_%d", group, i)
		all = append(all, p)
	}
	return all, nil
}

func placeOnGPUs(cfg *inferencepb.ModelConfig, g *inferencepb.ModelInstanceGroup, p backend.Placement, count int,
	gpus []int32) (all []backend.Placement, err error) {
	group := p.Name
	if len(gpus) == 0 {
		return nil, status.Errorf(status.InvalidArg,
			"instance group %s of model %s has kind KIND_GPU but no GPUs are available", group, cfg.GetName())
	}
	for i := range count {
		for _, id := range g.GetGpus() {
			if !slices.Contains(gpus, id) {
				return nil, status.Errorf(status.InvalidArg,
					"instance group %s of model %s specifies invalid or unsupported gpu id %d; the GPUs are %v",
					group, cfg.GetName(), id, gpus)
			}
			p.Device = int(id)
			p.Name = fmt.Sprintf("%s_%d_gpu%d", group, i, id)
			p.HostPolicy = cmp.Or(g.GetHostPolicy(), fmt.Sprintf("gpu_%d", id))
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, status.Errorf(status.InvalidArg,
			"instance group %s of model %s has kind KIND_GPU but specifies no GPUs", group, cfg.GetName())
	}
	return all, nil
}
