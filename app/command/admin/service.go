package admin

import (
	"context"
	"flag"
	"fmt"
	"os"

	"nereid/app/command"
	"nereid/app/service"
)

const serviceUsage = `Runs the server as a service of systemd.

Usage:
  nereid service install|status|uninstall [--root=<folder>]

install   writes the unit and, if there is none, /etc/nereid/nereid.yaml; makes the user nereid; starts the service
status    prints its state; the exit status is 0 if the service runs
uninstall stops the service and removes the unit; data, configuration and user stay

install copies the program to /usr/local/bin, unless it is below /usr or /opt. --root writes only files, below that
folder, as for an image.
`

// Service runs "nereid service …".
func Service(_ context.Context, e *command.Env, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(e.Stdout, serviceUsage)
		return 0
	}
	flags := flag.NewFlagSet("nereid service", flag.ContinueOnError)
	s := service.System{Out: e.Stdout}
	flags.StringVar(&s.Root, "root", "", "")
	if status, done := e.Parse(flags, args[1:], serviceUsage); done {
		return status
	}
	switch {
	case flags.NArg() > 0:
	case args[0] == "install":
		exe, err := os.Executable()
		if err == nil {
			err = s.Install(exe)
		}
		return e.ExitStatus(err, "")
	case args[0] == "uninstall":
		return e.ExitStatus(s.Uninstall(), "")
	case args[0] == "status":
		if s.Status() {
			return 0
		}
		return 1
	}
	fmt.Fprint(e.Stderr, "error: nereid service wants install, status or uninstall\n\n"+serviceUsage)
	return 2
}
