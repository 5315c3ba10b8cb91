package terminal

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"nereid/app/command"
	"nereid/engine/client"
)

const repositoryExtension = "model_repository"

// modelState is a version of a model in the JSON of list.
type modelState struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// List runs "nereid list".
func List(ctx context.Context, e *command.Env, args []string) int {
	var ready, quiet bool
	return runVerb(ctx, e, verb{
		name: "list", about: "Lists the models of a server, with their states.",
		options: []command.Option{
			command.Opt("--ready", "", "only models that are ready", &ready),
			command.Opt("-q, --quiet", "", "only names, one a line", &quiet),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			index, err := s.client.Index(ctx, ready)
			if err != nil {
				return s.lacks(ctx, err, repositoryExtension)
			}
			all, rows := []modelState{}, [][]string{{"NAME", "VERSION", "STATE", "REASON"}}
			for i, m := range index {
				if quiet && (i == 0 || index[i-1].GetName() != m.GetName()) {
					fmt.Fprintln(s.Stdout, printable(m.GetName()))
				}
				v := modelState{m.GetName(), m.GetVersion(), m.GetState(), m.GetReason()}
				all = append(all, v)
				rows = append(rows, []string{printable(v.Name), v.Version, cmp.Or(v.State, "not loaded"),
					printable(v.Reason)})
			}
			if quiet {
				return nil
			}
			return s.print(all, rows)
		},
	}, args)
}

// printable replaces control characters, which could change the terminal, and breaks of the line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0:
			return '\uFFFD'
		}
		return r
	}, strings.TrimSpace(text))
}

// changed is the JSON of load and unload.
type changed struct {
	Model string `json:"model"`
	Done  string `json:"done"`
}

// Load runs "nereid load".
func Load(ctx context.Context, e *command.Env, args []string) int {
	var config string
	return runVerb(ctx, e, verb{
		name: "load", args: "MODEL ...", least: 1, most: -1,
		about: "Loads models of a server's repositories, or loads them again.",
		options: []command.Option{
			command.Opt("--config", "JSON", "a model configuration instead of the file config.pbtxt; @FILE reads it",
				&config),
		},
		run: func(ctx context.Context, s *session, models []string) error {
			if path, ok := strings.CutPrefix(config, "@"); ok {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				config = string(b)
			}
			return s.change(ctx, "loaded", " is loaded", models, func(model string) error {
				return s.client.Load(ctx, model, client.LoadOptions{Config: config})
			})
		},
	}, args)
}

// Unload runs "nereid unload".
func Unload(ctx context.Context, e *command.Env, args []string) int {
	return runVerb(ctx, e, verb{
		name: "unload", args: "MODEL ...", least: 1, most: -1,
		about: "Unloads models of a server. Requests in progress are finished first.",
		run: func(ctx context.Context, s *session, models []string) error {
			return s.change(ctx, "unloaded", " is unloaded, or will be when its requests are finished", models,
				func(model string) error { return s.client.Unload(ctx, model) })
		},
	}, args)
}

// change calls f for each model until one fails, and prints each success.
func (s *session) change(ctx context.Context, done, text string, models []string, f func(string) error) error {
	for _, m := range models {
		if err := f(m); err != nil {
			err = fmt.Errorf("%s: %w", m, s.lacks(ctx, err, repositoryExtension))
			if strings.Contains(err.Error(), "not allowed if polling is enabled") {
				err = fmt.Errorf("%w. The server is not in the mode explicit: in poll mode it loads what is copied to "+
					"its repository, and unloads what is removed; in the mode none it loads models only when it "+
					"starts. Restart it, or start it with --model-control-mode=poll or explicit", err)
			}
			return err
		}
		if err := s.print(changed{m, done}, [][]string{{printable(m) + text}}); err != nil {
			return err
		}
	}
	return nil
}
