package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"nereid/app/command"
	"nereid/app/command/admin"
	"nereid/app/command/convert"
	tunecmd "nereid/app/command/tune"
	"nereid/app/options"
)

func inspectModel(ctx context.Context, e *command.Env, args []string) int {
	return admin.Inspect(ctx, e, args, measureChanges)
}

func convertModel(ctx context.Context, e *command.Env, args []string) int {
	return convert.Run(ctx, e, args, func(ctx context.Context, folder, dataDir, objective string, budgetMs float64) (
		out convert.Tuned, err error) {
		if dataDir, err = options.CommandDataDir(dataDir, e.Lookup); err != nil {
			return out, err
		}
		f, err := tunecmd.Find(ctx, tuneProgram(), folder, dataDir, objective, budgetMs, e.Stderr)
		switch {
		case err != nil:
			return out, err
		case !f.Keeps:
			return out, fmt.Errorf("none of %d measurements keeps a p99 of %g ms", f.Measured, budgetMs)
		}
		return convert.Tuned{Config: f.Text, Changes: f.Changes, Load: f.Load, Rate: f.Rate,
			P99Ms: float64(f.P99.Microseconds()) / 1000}, nil
	})
}

// measureChanges measures changes of a model's configuration, by private servers as nereid tune does, and of its
// precision, by conversions that are discarded.
func measureChanges(ctx context.Context, e *command.Env, folder, file, dataDir string) ([]admin.Suggestion, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	dataDir, err := options.CommandDataDir(dataDir, e.Lookup)
	if err != nil {
		return nil, err
	}
	gains, err := tunecmd.Gains(ctx, tuneProgram(), folder, dataDir, e.Stderr)
	if err != nil {
		return nil, err
	}
	var out []admin.Suggestion
	for _, g := range gains {
		how := g.Load + ", one row a request"
		if !g.Stable {
			how += " (windows differ)"
		}
		out = append(out, admin.Suggestion{Change: g.Change, How: how, Ratio: g.Rate, P99Ratio: g.P99,
			Failed: g.Failed, Apply: g.Apply})
	}
	quiet := *e
	quiet.Stdout, quiet.Stderr = io.Discard, io.Discard
	for _, target := range []string{"fp16", "int8"} {
		s := admin.Suggestion{Change: target,
			Apply: fmt.Sprintf("nereid convert -r %s --%s %s", command.ShellQuote(filepath.Dir(folder)), target,
				command.ShellQuote(file))}
		switch r, err := convert.Measure(ctx, &quiet, dataDir, file, target); {
		case ctx.Err() != nil:
			return nil, errors.New("interrupted")
		case err != nil:
			s.Failed = err.Error()
		default:
			s.How = "one row at a time, one thread, " + r.Provider
			s.Ratio, s.Differs = r.MsBefore/r.MsAfter, r.Differs
		}
		out = append(out, s)
	}
	return out, nil
}
