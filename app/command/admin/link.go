package admin

import (
	"context"
	"flag"
	"fmt"
	"io"

	"nereid/app/command"
	"nereid/app/control"
	"nereid/app/options"
)

const linkUsage = `Prints a link that opens the GUI of the running server in a browser, once, within ten minutes.

Usage:
  nereid link [--data-dir=<folder>]

The user who runs the server, and root, need no link: they open the page by its address. A link is for browsers of other
users, and where the server cannot tell who its client is: through a tunnel, from a container, or outside Linux.
`

// Link runs "nereid link".
func Link(_ context.Context, e *command.Env, args []string) int {
	flags := flag.NewFlagSet("nereid link", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dataDir := flags.String("data-dir", "", "")
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q; nereid link --help shows the use", flags.Arg(0))
	}
	var dir string
	if err == nil {
		dir, err = options.CommandDataDir(*dataDir, e.Lookup)
	}
	if err == nil {
		err = control.With(dir, func(c *control.Client) error {
			url, err := c.Link()
			if err == nil {
				fmt.Fprintln(e.Stdout, url)
			}
			return err
		})
	}
	return e.ExitStatus(err, linkUsage)
}
