package metrics

import (
	"regexp"
	"strings"
)

// Sample is a line of Prometheus's text form. Value is a text, because JSON lacks NaN and infinity.
type Sample struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  string            `json:"value"`
}

var (
	sampleLine  = regexp.MustCompile(`^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)`)
	sampleLabel = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	unescape    = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
)

// ParseSample reads a line of Prometheus's text form. It reports false for comments and for what is no sample.
func ParseSample(line string) (m Sample, ok bool) {
	found := sampleLine.FindStringSubmatch(line)
	if found == nil {
		return m, false
	}
	m = Sample{Name: found[1], Value: found[3]}
	for _, l := range sampleLabel.FindAllStringSubmatch(found[2], -1) {
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[l[1]] = unescape.Replace(l[2])
	}
	return m, true
}
