package modelconfig

import (
	"slices"

	"nereid/engine/inferencepb"
)

// ChooseVersions returns the available versions that a policy selects, ascending: the latest n, all, or the listed
// ones. Without a policy it is the latest one. The result may be empty.
func ChooseVersions(policy *inferencepb.ModelVersionPolicy, available []int64) []int64 {
	sorted := slices.Clone(available)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	switch c := policy.GetPolicyChoice().(type) {
	case *inferencepb.ModelVersionPolicy_All_:
		return sorted
	case *inferencepb.ModelVersionPolicy_Specific_:
		return slices.DeleteFunc(sorted, func(v int64) bool { return !slices.Contains(c.Specific.GetVersions(), v) })
	case *inferencepb.ModelVersionPolicy_Latest_:
		n := min(uint64(c.Latest.GetNumVersions()), uint64(len(sorted)))
		return sorted[len(sorted)-int(n):]
	default:
		return sorted[max(len(sorted)-1, 0):]
	}
}
