package terminal

import (
	"context"
	"fmt"
	"strings"

	"nereid/app/command"
	"nereid/engine/metrics"
)

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
			all := []metrics.Sample{}
			for line := range strings.Lines(string(body)) {
				if len(texts) > 0 && !containsAny(line, texts) {
					continue
				}
				if !s.asJSON {
					fmt.Fprint(s.Stdout, line)
				} else if m, ok := metrics.ParseSample(line); ok {
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
