package modelconfig

import (
	"fmt"
	"slices"

	"nereid/engine/inferencepb"
)

// DefaultSequenceIdleMicroseconds is the idle time of a sequence when the configuration gives none.
const DefaultSequenceIdleMicroseconds = 1_000_000

// NormalizeOptions are the settings on which the defaults depend.
type NormalizeOptions struct {
	// GPUs are the IDs of the GPUs that models may use, ascending. None: KIND_AUTO is KIND_CPU.
	GPUs []int32
	// CPUOnly: the backend cannot use GPUs, and KIND_AUTO is KIND_CPU.
	CPUOnly bool
	// PreferredGroups are the instance groups that the backend prefers where the configuration leaves kind, count or
	// GPUs open. The first one that the machine can satisfy is used.
	PreferredGroups []*inferencepb.ModelInstanceGroup
}

// Normalize fills in the defaults that Triton shows in /config: version policy latest 1, preferred batch size
// max_batch_size, sequence idle time 1 s and pinned memory on. A configuration without instance groups gets one. Each
// group gets a name, a kind, a count and GPUs. It changes cfg in place and is idempotent. Call it after Complete.
func Normalize(cfg *inferencepb.ModelConfig, o NormalizeOptions) {
	if cfg.GetVersionPolicy().GetPolicyChoice() == nil {
		cfg.VersionPolicy = &inferencepb.ModelVersionPolicy{PolicyChoice: &inferencepb.ModelVersionPolicy_Latest_{
			Latest: &inferencepb.ModelVersionPolicy_Latest{NumVersions: 1}}}
	}
	if d := cfg.GetDynamicBatching(); d != nil {
		d.PreferredBatchSize = preferredOrMax(d.PreferredBatchSize, cfg.MaxBatchSize)
	}
	if s := cfg.GetSequenceBatching(); s != nil {
		if s.MaxSequenceIdleMicroseconds == 0 {
			s.MaxSequenceIdleMicroseconds = DefaultSequenceIdleMicroseconds
		}
		if oldest := s.GetOldest(); oldest != nil {
			oldest.PreferredBatchSize = preferredOrMax(oldest.PreferredBatchSize, cfg.MaxBatchSize)
		}
	}
	if cfg.GetEnsembleScheduling() != nil {
		return // an ensemble has neither instances nor buffers
	}
	if cfg.Optimization == nil {
		cfg.Optimization = new(inferencepb.ModelOptimizationPolicy)
	}
	type pinned = inferencepb.ModelOptimizationPolicy_PinnedMemoryBuffer
	for _, p := range []**pinned{&cfg.Optimization.InputPinnedMemory, &cfg.Optimization.OutputPinnedMemory} {
		if *p == nil {
			*p = &pinned{Enable: true}
		}
	}
	normalizeGroups(cfg, o)
}

func preferredOrMax(preferred []int32, maxBatch int32) []int32 {
	if len(preferred) == 0 && maxBatch > 0 {
		return []int32{maxBatch}
	}
	return preferred
}

func normalizeGroups(cfg *inferencepb.ModelConfig, o NormalizeOptions) {
	if len(cfg.InstanceGroup) == 0 {
		cfg.InstanceGroup = []*inferencepb.ModelInstanceGroup{defaultGroup(cfg.Name, o)}
	}
	for i, g := range cfg.InstanceGroup {
		if g.Name == "" {
			g.Name = fmt.Sprintf("%s_%d", cfg.Name, i)
		}
		if g.Kind == inferencepb.ModelInstanceGroup_KIND_AUTO {
			if g.Kind = autoKind(g.Gpus, o); g.Kind == inferencepb.ModelInstanceGroup_KIND_CPU {
				g.Gpus = nil // its GPUs are not available
			}
		}
		applyPreferred(g, o)
		if g.Count < 1 {
			g.Count = defaultCount(g.Kind, cfg.Backend)
		}
		if g.Kind == inferencepb.ModelInstanceGroup_KIND_GPU && len(g.Gpus) == 0 {
			g.Gpus = slices.Clone(o.GPUs)
		}
	}
}

// defaultGroup returns the group of a configuration without groups. It has the model's name.
func defaultGroup(model string, o NormalizeOptions) *inferencepb.ModelInstanceGroup {
	g := &inferencepb.ModelInstanceGroup{Name: model}
	for _, p := range o.PreferredGroups {
		if p.Kind == inferencepb.ModelInstanceGroup_KIND_GPU {
			if len(o.GPUs) == 0 {
				continue
			}
			g.Gpus = intersect(p.Gpus, o.GPUs)
		} else if p.Kind == inferencepb.ModelInstanceGroup_KIND_AUTO {
			g.Gpus = slices.Clone(p.Gpus)
		}
		g.Kind, g.Count = p.Kind, p.Count
		break
	}
	return g
}

// applyPreferred fills in what the group leaves open from the preferred groups of its kind.
func applyPreferred(g *inferencepb.ModelInstanceGroup, o NormalizeOptions) {
	for _, p := range o.PreferredGroups {
		if p.Kind != g.Kind {
			continue
		}
		if g.Kind == inferencepb.ModelInstanceGroup_KIND_GPU && len(g.Gpus) == 0 && len(p.Gpus) > 0 {
			if g.Gpus = intersect(p.Gpus, o.GPUs); len(g.Gpus) == 0 {
				continue
			}
		}
		if g.Count < 1 && p.Count > 0 {
			g.Count = p.Count
		}
	}
}

func intersect(a, b []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(a), func(x int32) bool { return !slices.Contains(b, x) })
}

// autoKind resolves KIND_AUTO: GPU if there are GPUs and every listed one is available.
func autoKind(listed []int32, o NormalizeOptions) inferencepb.ModelInstanceGroup_Kind {
	if o.CPUOnly || len(o.GPUs) == 0 || len(intersect(listed, o.GPUs)) != len(listed) {
		return inferencepb.ModelInstanceGroup_KIND_CPU
	}
	return inferencepb.ModelInstanceGroup_KIND_GPU
}

// defaultCount is 1, but 2 for ONNX Runtime and TensorFlow on the CPU.
func defaultCount(kind inferencepb.ModelInstanceGroup_Kind, backend string) int32 {
	cpu := kind == inferencepb.ModelInstanceGroup_KIND_CPU
	if cpu && (backend == BackendONNXRuntime || backend == BackendTensorFlow) {
		return 2
	}
	return 1
}
