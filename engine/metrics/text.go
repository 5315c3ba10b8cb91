package metrics

import (
	"slices"
	"strings"

	"nereid/engine/repo"
	"nereid/engine/stats"
)

// writer appends Prometheus's text format, version 0.0.4.
type writer struct{ b []byte }

// family writes a family's HELP and TYPE.
func (w *writer) family(name, help, kind string) {
	w.b = append(w.b, "# HELP "...)
	w.b = append(w.b, name...)
	w.b = append(w.b, ' ')
	w.b = append(w.b, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)...)
	w.b = append(w.b, "\n# TYPE "...)
	w.b = append(w.b, name...)
	w.b = append(w.b, ' ')
	w.b = append(w.b, kind...)
	w.b = append(w.b, '\n')
}

// start writes a sample's name and its labels, which are given as name, value, name, value.
func (w *writer) start(name string, labels ...string) {
	w.b = append(w.b, name...)
	w.b = append(w.b, '{')
	for i := 0; i < len(labels); i += 2 {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, labels[i]...)
		w.b = append(w.b, '=', '"')
		w.escape(labels[i+1])
		w.b = append(w.b, '"')
	}
	w.b = append(w.b, '}')
}

// end writes a sample's value.
func (w *writer) end(value string) {
	w.b = append(w.b, ' ')
	w.b = append(w.b, value...)
	w.b = append(w.b, '\n')
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

// escape writes a label's value. Backslash, quote and newline are escaped, what is not UTF-8 is replaced.
func (w *writer) escape(v string) {
	for _, c := range strings.ToValidUTF8(v, "\uFFFD") {
		switch c {
		case '\\', '"':
			w.b = append(w.b, '\\', byte(c))
		case '\n':
			w.b = append(w.b, '\\', 'n')
		default:
			w.b = append(w.b, string(c)...)
		}
	}
}
