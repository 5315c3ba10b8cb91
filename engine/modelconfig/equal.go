package modelconfig

import (
	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
)

// OnlyInstanceCountsDiffer reports whether two normalized configurations differ only in the counts of their instance
// groups, so that instances can be added or removed without a reload. It returns false for equal configurations.
func OnlyInstanceCountsDiffer(a, b *inferencepb.ModelConfig) bool {
	if len(a.InstanceGroup) != len(b.InstanceGroup) || proto.Equal(a, b) {
		return false
	}
	same := proto.Clone(b).(*inferencepb.ModelConfig)
	for i, g := range same.InstanceGroup {
		g.Count = a.InstanceGroup[i].GetCount()
	}
	return proto.Equal(a, same)
}
