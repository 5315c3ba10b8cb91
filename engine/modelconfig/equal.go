package modelconfig

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
)

// ChangesInPlace reports whether a version that serves with configuration a need not be loaded again for b. The two are
// normalized and differ only in the version policy, and in the counts, names and order of the instance groups: each
// group of b must otherwise be like one of a.
func ChangesInPlace(a, b *inferencepb.ModelConfig) bool {
	rest := func(c *inferencepb.ModelConfig) (*inferencepb.ModelConfig, []*inferencepb.ModelInstanceGroup) {
		c = proto.Clone(c).(*inferencepb.ModelConfig)
		groups := c.InstanceGroup
		c.InstanceGroup, c.VersionPolicy = nil, nil
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
	return (len(groupsA) == 0) == (len(groupsB) == 0) && proto.Equal(restA, restB)
}
