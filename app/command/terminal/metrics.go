package terminal

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"nereid/app/command"
)

// sample is a line of Prometheus's text form. Value is a text, because JSON lacks NaN and infinity.
type sample struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  string            `json:"value"`
}

// Metrics runs "nereid metrics".
func Metrics(ctx context.Context, e *command.Env, args []string) int {
	var address string
	return runVerb(ctx, e, verb{
		name: "metrics", args: "[TEXT ...]", most: -1,
		about: "Prints the metrics of a server in Prometheus's form: all, or those whose line has one of the texts.",
		options: []command.Option{command.Opt("--metrics-url", "URL",
			"default: port 8002 of the server's machine, and the path /metrics", &address)},
		run: func(ctx context.Context, s *session, texts []string) error {
			at := s.beside(address, "8002")
			if !strings.HasSuffix(at, "/metrics") {
				at += "/metrics"
			}
			body, err := s.get(ctx, at, "the server's metrics", "--metrics-url")
			if err != nil {
				return err
			}
			all := []sample{}
			for line := range strings.Lines(string(body)) {
				if len(texts) > 0 && !containsAny(line, texts) {
					continue
				}
				if !s.asJSON {
					fmt.Fprint(s.Stdout, line)
				} else if m, ok := parseSample(line); ok {
					all = append(all, m)
				}
			}
			if s.asJSON {
				return s.print(all, nil)
			}
			return nil
		},
	}, args)
}

func containsAny(line string, texts []string) bool {
	for _, t := range texts {
		if strings.Contains(line, t) {
			return true
		}
	}
	return false
}

var (
	sampleLine  = regexp.MustCompile(`^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)`)
	sampleLabel = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	unescape    = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
)

// parseSample reads a line of Prometheus's text form. It reports false for comments and for what is no sample.
func parseSample(line string) (m sample, ok bool) {
	found := sampleLine.FindStringSubmatch(line)
	if found == nil {
		return m, false
	}
	m = sample{Name: found[1], Value: found[3]}
	for _, l := range sampleLabel.FindAllStringSubmatch(found[2], -1) {
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[l[1]] = unescape.Replace(l[2])
	}
	return m, true
}
