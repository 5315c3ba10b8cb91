package admin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"nereid/app/command"
	"nereid/app/datadir"
	"nereid/app/options"
	"nereid/engine/backend/python"
)

const installUsage = `Installs what the models of a framework need, from the Python package index,
into a separate environment in the data folder. TensorFlow and OpenVINO are then run by their own libraries,
PyTorch, Treelite and OneFlow in Python. OneFlow needs Python 3.8, 3.9 or 3.10, and is installed for the one in PATH
or of pyenv.

Usage:
  nereid install [--data-dir=<folder>] [--python=<path>] [--json] <framework> ...
  nereid install --list [--json] [--data-dir=<folder>]

With --json the list (after an installation: of what was installed) is JSON, and the installer's output goes to the
standard error. The packages come from the index that pip or uv is configured for. Models that failed because of
missing packages must be loaded again.
`

// Install runs "nereid install …".
func Install(ctx context.Context, e *command.Env, args []string) int {
	return e.ExitStatus(runInstall(ctx, e, args), installUsage)
}

func runInstall(ctx context.Context, e *command.Env, args []string) error {
	flags := flag.NewFlagSet("nereid install", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dataDir := flags.String("data-dir", "", "")
	interpreter := flags.String("python", "python3", "")
	list := flags.Bool("list", false, "")
	asJSON := flags.Bool("json", false, "")
	if err := command.ParseMixed(flags, args); err != nil {
		return err
	}
	dir, err := options.CommandDataDir(*dataDir, e.Lookup)
	if err != nil {
		return err
	}
	folder := datadir.Python(dir)
	if *list {
		return listFrameworks(folder, python.Frameworks(), *asJSON, e.Stdout)
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
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	out := e.Stdout
	if *asJSON {
		out = e.Stderr
	}
	for _, f := range wanted {
		if err := python.InstallFramework(ctx, folder, *interpreter, f, out); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s is installed\n", f.Title)
	}
	if *asJSON {
		return listFrameworks(folder, wanted, true, e.Stdout)
	}
	return nil
}

func frameworkNames() []string {
	var names []string
	for _, f := range python.Frameworks() {
		names = append(names, f.Name)
	}
	return names
}

// framework is the JSON form of a framework.
type framework struct {
	Name        string   `json:"name"` // of the backend
	Title       string   `json:"title"`
	Packages    []string `json:"packages"` // with versions, as a requirements.txt has them
	Size        string   `json:"size"`     // about, on disk
	Installed   bool     `json:"installed"`
	Environment string   `json:"environment"` // its folder, even if it does not exist
}

func listFrameworks(folder string, list []python.Framework, asJSON bool, out io.Writer) error {
	all := []framework{}
	for _, f := range list {
		all = append(all, framework{
			f.Name, f.Title, strings.Fields(f.Requirements), f.Size, f.Installed(folder), f.Environment(folder),
		})
	}
	if asJSON {
		return printJSON(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tPACKAGE\tSIZE\tINSTALLED")
	for _, f := range all {
		installed := "no"
		if f.Installed {
			installed = "yes, in " + f.Environment
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, f.Packages[0], f.Size, installed)
	}
	return w.Flush()
}
