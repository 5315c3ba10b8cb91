package terminal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"nereid/app/command"
	"nereid/engine/modelconfig"
)

// serverStatus is the JSON of status.
type serverStatus struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Live       bool     `json:"live"`
	Ready      bool     `json:"ready"`
	Extensions []string `json:"extensions"`
}

// Status runs "nereid status". Its exit status is 1 if the server is not ready.
func Status(ctx context.Context, e *command.Env, args []string) int {
	return runVerb(ctx, e, verb{
		name: "status", about: "Says whether a server is live and ready, and what it is. The exit status is 1 if not.",
		run: func(ctx context.Context, s *session, _ []string) error {
			var now serverStatus
			meta, err := s.client.ServerMetadata(ctx)
			if err == nil {
				now.Name, now.Version, now.Extensions = meta.GetName(), meta.GetVersion(), meta.GetExtensions()
				now.Live, err = s.client.Live(ctx)
			}
			if err == nil {
				now.Ready, err = s.client.Ready(ctx)
			}
			if err != nil {
				return err
			}
			if err := s.print(now, [][]string{{"NAME", "VERSION", "LIVE", "READY", "EXTENSIONS"},
				{printable(now.Name), printable(now.Version), strconv.FormatBool(now.Live),
					strconv.FormatBool(now.Ready), printable(strings.Join(now.Extensions, " "))}}); err != nil {
				return err
			}
			if !now.Live || !now.Ready {
				return errors.New("the server is not ready")
			}
			return nil
		},
	}, args)
}

// GetConfig runs "nereid config get".
func GetConfig(ctx context.Context, e *command.Env, args []string) int {
	var version string
	return runVerb(ctx, e, verb{
		name: "config get", args: "MODEL", least: 1, most: 1,
		about: "Prints the configuration that a server uses for a model, in the form of config.pbtxt.",
		options: []command.Option{
			command.Opt("-x, --model-version", "VERSION", "default: the server chooses", &version),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			cfg, err := s.client.ModelConfig(ctx, args[0], version)
			if err != nil {
				return s.lacks(ctx, err, "model_configuration")
			}
			text := modelconfig.Format(cfg)
			if s.asJSON {
				text = string(modelconfig.MarshalJSON(cfg)) + "\n"
			}
			_, err = fmt.Fprint(s.Stdout, text)
			return err
		},
	}, args)
}
