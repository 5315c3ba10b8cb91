package options

import "slices"

const edgeOption = "edge"

// edge are the settings of --edge, for a box with 2 GiB of memory and a slow disk such as an SD card.
var edge = []setting{
	{"model-memory-budget", "1GiB", "--" + edgeOption},
	{"request-memory-limit", "256MiB", "--" + edgeOption},
	{"model-load-thread-count", "1", "--" + edgeOption},
	{"backend-config", "onnxruntime,enable-global-threadpool=1", "--" + edgeOption}, // threads for all models together
	{"keep-requests", "10000", "--" + edgeOption},
	{"history-max-bytes", "64MiB", "--" + edgeOption},
}

// preset returns the settings of --edge, unless their options are given; none if --edge is not given.
func (t names) preset(given []setting) []setting {
	if !slices.ContainsFunc(given, func(s setting) bool { return s.name == edgeOption }) {
		return nil
	}
	return t.overridden(slices.Clone(edge), given)
}

// Edge returns what --edge has set, as name=value.
func (s *sources) Edge() (set []string) {
	for _, e := range edge {
		if slices.Contains(s.origin[e.name], e) {
			set = append(set, e.name+"="+e.value)
		}
	}
	return set
}
