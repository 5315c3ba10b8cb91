package app

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"nereid/store"
)

const backupUsage = `Copies what the server remembers into a file, and takes it back.

Usage:
  nereid backup [--data-dir=<folder>] <new file>
  nereid restore [--data-dir=<folder>] <file>

It is the history, the settings, the revisions of configurations, and the tokens as their checksums. Models are not in it:
they are folders, to be copied as such. A backup can be made while the server runs. A restore wants it stopped; what was there is
kept beside it under a new name. A backup of an older version is brought up to date by the next start.
`

// backupCommand runs "nereid backup …" and "nereid restore …".
func backupCommand(verb string, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	return ended(runBackup(verb, args, lookup, stdout), backupUsage, stdout, stderr)
}

func runBackup(verb string, args []string, lookup func(string) (string, bool), stdout io.Writer) error {
	flags := flag.NewFlagSet("nereid "+verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	given := flags.String("data-dir", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("%s wants one file; nereid %s --help shows the use", verb, verb)
	}
	dir, err := commandDataDir(*given, lookup)
	if err != nil {
		return err
	}
	ctx, file := context.Background(), flags.Arg(0)
	if verb == "backup" {
		if err := store.Backup(ctx, dir, file); err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err == nil {
			fmt.Fprintf(stdout, "%s: %d bytes of %s\n", file, info.Size(), dir)
		}
		return err
	}
	data, err := openDataDir(dir)
	if err != nil {
		return err // a server that runs has it
	}
	defer data.close()
	aside, err := store.Restore(ctx, file, data.path)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s has what %s holds\n", data.path, file)
	if aside != "" {
		fmt.Fprintf(stdout, "what it had is in %s\n", aside)
	}
	return nil
}
