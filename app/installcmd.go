package app

import (
	"context"
	"encoding/json"
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

const installUsage = `Installs what the models of a framework need, from the Python package index, into an environment of its own in the data
folder. TensorFlow and OpenVINO are then run by their own libraries, PyTorch and Treelite in Python.

Usage:
  nereid install [--data-dir=<folder>] [--python=<path>] [--json] <framework> ...
  nereid install --list [--json] [--data-dir=<folder>]

With --json the list (after an installation: of what was asked for) is JSON, and what the installer says goes to the
standard error. The packages come from the index that pip or uv is set up for. Models that were waiting for them load
when they are loaded again.
`

// installCommand runs "nereid install …".
func installCommand(args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	return ended(runInstall(args, lookup, stdout, stderr), installUsage, stdout, stderr)
}

func runInstall(args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("nereid install", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dataDir := flags.String("data-dir", "", "")
	interpreter := flags.String("python", "python3", "")
	list := flags.Bool("list", false, "")
	asJSON := flags.Bool("json", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := commandDataDir(*dataDir, lookup)
	if err != nil {
		return err
	}
	folder := pythonFolder(dir)
	if *list {
		return listFrameworks(folder, python.Frameworks(), *asJSON, stdout)
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
	said := stdout
	if *asJSON {
		said = stderr
	}
	for _, f := range wanted {
		if err := python.InstallFramework(ctx, folder, *interpreter, f, said); err != nil {
			return err
		}
		fmt.Fprintf(said, "%s is installed\n", f.Title)
	}
	if *asJSON {
		return listFrameworks(folder, wanted, true, stdout)
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

// framework is what --json says of one.
type framework struct {
	Name        string   `json:"name"` // of the backend
	Title       string   `json:"title"`
	Packages    []string `json:"packages"` // with versions, as a requirements.txt has them
	Size        string   `json:"size"`     // about, on disk
	Installed   bool     `json:"installed"`
	Environment string   `json:"environment"` // its folder, whether it is there or not
}

func listFrameworks(folder string, list []python.Framework, asJSON bool, stdout io.Writer) error {
	all := []framework{}
	for _, f := range list {
		all = append(all, framework{f.Name, f.Title, strings.Fields(f.Requirements), f.Size, f.Installed(folder), f.Environment(folder)})
	}
	if asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
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
