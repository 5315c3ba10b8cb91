package modelconfig

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
)

// OnlyInstancesDiffer reports whether two normalized configurations differ only in the counts, names and order of their
// instance groups, so that instances can be added or removed without a reload. Each group of b must otherwise be like
// one of a. It returns false for equal configurations.
func OnlyInstancesDiffer(a, b *inferencepb.ModelConfig) bool {
	if proto.Equal(a, b) || len(a.InstanceGroup) == 0 || len(b.InstanceGroup) == 0 {
		return false
	}
	rest := func(c *inferencepb.ModelConfig) (*inferencepb.ModelConfig, []*inferencepb.ModelInstanceGroup) {
		c = proto.Clone(c).(*inferencepb.ModelConfig)
		groups := c.InstanceGroup
		c.InstanceGroup = nil
		for _, g := range groups {
			g.Name, g.Count = "", 0
		}
		return c, groups
	}
	restA, groupsA := rest(a)
	restB, groupsB := rest(b)
	for _, g := range groupsB {
		like := func(h *inferencepb.ModelInstanceGroup) bool { return proto.Equal(g, h) }
		if !slices.ContainsFunc(groupsA, like) {
			return false
		}
	}
	return proto.Equal(restA, restB)
}
