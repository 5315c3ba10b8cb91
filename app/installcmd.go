package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"

	"nereid/engine/backend/python"
)

const installUsage = `Installs the Python packages that the models of a framework need, into an environment of their own in the data folder.

Usage:
  nereid install [--data-dir=<folder>] [--python=<path>] <framework> ...
  nereid install --list [--data-dir=<folder>]

The packages come from the package index that pip or uv is set up for. Models that were waiting for them load when they
are loaded again.
`

// installCommand runs "nereid install …".
func installCommand(args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	err := runInstall(args, lookup, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, installUsage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

func runInstall(args []string, lookup func(string) (string, bool), stdout io.Writer) error {
	flags := flag.NewFlagSet("nereid install", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dataDir := flags.String("data-dir", "", "")
	interpreter := flags.String("python", "python3", "")
	list := flags.Bool("list", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := commandDataDir(*dataDir, lookup)
	if err != nil {
		return err
	}
	folder := pythonFolder(dir)
	if *list {
		return listFrameworks(folder, stdout)
	}
	if flags.NArg() == 0 {
		return errors.New("name what to install: " + strings.Join(frameworkNames(), ", "))
	}
	var wanted []python.Framework
	for _, name := range flags.Args() {
		f, ok := python.FindFramework(name)
		if !ok {
			return fmt.Errorf("unknown framework %q; there are %s", name, strings.Join(frameworkNames(), ", "))
		}
		wanted = append(wanted, f)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for _, f := range wanted {
		if err := python.InstallFramework(ctx, folder, *interpreter, f, stdout); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s is installed\n", f.Title)
	}
	return nil
}

// pythonFolder is where a data folder has what the Python backend keeps.
func pythonFolder(dataDir string) string { return filepath.Join(dataDir, "runtime", "python") }

func frameworkNames() []string {
	var names []string
	for _, f := range python.Frameworks() {
		names = append(names, f.Name)
	}
	return names
}

func listFrameworks(folder string, stdout io.Writer) error {
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tPACKAGE\tSIZE\tINSTALLED")
	for _, f := range python.Frameworks() {
		installed := "no"
		if f.Installed(folder) {
			installed = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, strings.Fields(f.Requirements)[0], f.Size, installed)
	}
	return w.Flush()
}
