package admin

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"nereid/app/access"
	"nereid/app/command"
	"nereid/app/datadir"
	"nereid/app/options"
	"nereid/store"
)

const backupUsage = `Copies what the server remembers into a file, and takes it back.

Usage:
  nereid backup [--data-dir=<folder>] <new file>
  nereid restore [--data-dir=<folder>] <file>

A backup holds the history, the settings, the revisions of configurations, and the checksums of the tokens. It does
not hold the models: copy their folders. A backup can be made while the server runs; a restore needs it stopped. The
data that a restore replaces is kept next to it under a new name. The next start upgrades a backup of an older version.
`

// Backup runs "nereid backup …".
func Backup(ctx context.Context, e *command.Env, args []string) int {
	return e.ExitStatus(withBackup(e, "backup", args, func(file, dataDir string) error {
		if err := store.Backup(ctx, dataDir, file); err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err == nil {
			fmt.Fprintf(e.Stdout, "%s: %d bytes of %s\n", file, info.Size(), dataDir)
		}
		return err
	}), backupUsage)
}

// Restore runs "nereid restore …".
func Restore(ctx context.Context, e *command.Env, args []string) int {
	return e.ExitStatus(withBackup(e, "restore", args, func(file, dataDir string) error {
		data, err := datadir.Open(dataDir)
		if err != nil {
			return err // a running server has it
		}
		defer data.Close()
		aside, err := store.Restore(ctx, file, data.Path)
		if err != nil {
			return err
		}
		if err := access.Forget(data.Path); err != nil {
			return fmt.Errorf("the tokens are still those from before the restore: %w", err)
		}
		fmt.Fprintf(e.Stdout, "%s has what %s holds\n", data.Path, file)
		if aside != "" {
			fmt.Fprintf(e.Stdout, "what it had is in %s\n", aside)
		}
		return nil
	}), backupUsage)
}

// withBackup parses the arguments of both commands and calls run.
func withBackup(e *command.Env, verb string, args []string, run func(file, dataDir string) error) error {
	flags := flag.NewFlagSet("nereid "+verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	given := flags.String("data-dir", "", "")
	if err := command.ParseMixed(flags, args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("%s wants one file; nereid %s --help shows the use", verb, verb)
	}
	dir, err := options.CommandDataDir(*given, e.Lookup)
	if err != nil {
		return err
	}
	return run(flags.Arg(0), dir)
}
