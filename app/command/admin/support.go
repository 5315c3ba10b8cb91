package admin

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"nereid/app/command"
	"nereid/app/control"
	"nereid/app/options"
)

const supportUsage = `Writes a support bundle: a zip file for a person who looks into a problem of a server.

Usage:
  nereid support [--data-dir=<folder>] [<new file>]

The bundle has versions, options, the states and configurations of models, the newest lines of the log, events, metrics
and the last crash. Of a server that does not run it has the events and the last crash. It has no secrets, and no
contents of requests. Its README.txt says more. The default file is nereid-support-<time>.zip in this folder.
`

// Support runs "nereid support".
func Support(_ context.Context, e *command.Env, args []string) int {
	return e.ExitStatus(saveSupport(e, args), supportUsage)
}

func saveSupport(e *command.Env, args []string) error {
	flags := flag.NewFlagSet("nereid support", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dataDir := flags.String("data-dir", "", "")
	if err := command.ParseMixed(flags, args); err != nil {
		return err
	}
	path := "nereid-support-" + time.Now().Format("20060102-150405") + ".zip"
	switch flags.NArg() {
	case 0:
	case 1:
		path = flags.Arg(0)
	default:
		return fmt.Errorf("support wants at most one file; nereid support --help shows the use")
	}
	dir, err := options.CommandDataDir(*dataDir, e.Lookup)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = control.With(dir, func(c *control.Client) error { return c.Support(f) })
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(path) // an incomplete bundle
		return err
	}
	fmt.Fprintln(e.Stdout, path)
	return nil
}
