package options

import (
	"slices"
	"strings"
)

const (
	edgeOption = "edge"
	edgeFrom   = "--" + edgeOption // where its settings come from
)

// edge are the settings of --edge, for a box with 2 GiB of memory and a slow disk such as an SD card.
var edge = []setting{
	{"model-memory-budget", "1GiB", edgeFrom},
	{"request-memory-limit", "256MiB", edgeFrom},
	{"model-load-thread-count", "1", edgeFrom},
	{"backend-config", "onnxruntime,enable-global-threadpool=1", edgeFrom}, // threads for all models together
	{"keep-requests", "10000", edgeFrom},
	{"history-max-bytes", "64MiB", edgeFrom},
	{"log-file-max-bytes", "16MiB", edgeFrom},
}

// preset returns the settings of --edge, unless they are given; none if --edge is not given. Of --backend-config, only
// the same key of the same backend replaces that of --edge.
func (t names) preset(given []setting) []setting {
	if !slices.ContainsFunc(given, func(s setting) bool { return s.name == edgeOption }) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(edge), func(e setting) bool {
		return slices.ContainsFunc(given, func(s setting) bool {
			name := t[s.name].names[0]
			return name == e.name && (name != "backend-config" || key(s) == key(e))
		})
	})
}

// key returns the backend and the key of a setting "[backend,]key=value".
func key(s setting) string {
	k, _, _ := strings.Cut(s.value, "=")
	return k
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
