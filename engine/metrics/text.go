package metrics

import (
	"fmt"
	"slices"
	"strings"

	"nereid/engine/repo"
	"nereid/engine/stats"
)

// escaper escapes the value of a label.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// writer appends Prometheus's text format, version 0.0.4.
type writer struct{ b []byte }

// family writes a family's HELP and TYPE.
func (w *writer) family(name, help, kind string) {
	help = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)
	w.b = fmt.Appendf(w.b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// start writes a sample's name and its labels, which are given as name, value, name, value.
func (w *writer) start(name string, labels ...string) {
	w.b = append(w.b, name...)
	w.b = append(w.b, '{')
	for i := 0; i < len(labels); i += 2 {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(append(w.b, labels[i]...), `="`...)
		w.b = append(append(w.b, escaper.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD"))...), '"')
	}
	w.b = append(w.b, '}')
}

// end writes a sample's value.
func (w *writer) end(value string) {
	w.b = append(append(append(w.b, ' '), value...), '\n')
}

// of writes the name and the labels of a model version's sample. The version's own labels come first, as in Triton. The
// first of labels is the model; with namespaces its repository follows.
func (w *writer) of(s *stats.Snapshot, name string, labels ...string) {
	if namespace, model := repo.Split(s.Model); namespace != "" {
		labels = slices.Concat([]string{"model", model, "namespace", namespace}, labels[2:])
	}
	if len(s.Tags) > 0 {
		labels = append(slices.Clone(s.Tags), labels...)
	}
	w.start(name, labels...)
}

// sample writes a sample of a model version.
func (w *writer) sample(name string, s *stats.Snapshot, value string) {
	w.of(s, name, "model", s.Model, "version", version(s))
	w.end(value)
}

// plain writes a sample without labels.
func (w *writer) plain(name, value string) {
	w.b = append(w.b, name...)
	w.end(value)
}

// single writes a family with one sample, which has no labels. With an error of the sample's source it writes no
// sample.
func (w *writer) single(name, help, kind, value string, err error) {
	w.family(name, help, kind)
	if err == nil {
		w.plain(name, value)
	}
}

// perVersion writes a family with one sample for each model version.
func (w *writer) perVersion(name, help, kind string, all []stats.Snapshot, value func(s *stats.Snapshot) string) {
	w.family(name, help, kind)
	for i := range all {
		w.sample(name, &all[i], value(&all[i]))
	}
}
