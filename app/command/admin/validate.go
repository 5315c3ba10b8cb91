package admin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"nereid/app/backends"
	"nereid/app/command"
	"nereid/app/inspect"
	"nereid/app/options"
)

const validateUsage = `Finds every fault of model repositories at once,
without serving them and without running a model's code.

Usage:
  nereid validate [--json] [--gpus=<number>|auto] [--model-config-name=<name>] [--model-namespacing]
                  [--data-dir=<folder>] REPOSITORY...

--gpus is how many GPUs the serving machine has; auto, the default, uses the number of this machine.

Prints a line for each fault: file:line:column: what is wrong; how to fix it. The exit status is 0 if no model has
an error in its files (warnings do not count), 1 if one has, 2 if the command itself is wrong.
`

const configUsage = `Prints and writes configurations of models, and shows the options of the server.

Usage:
  nereid config get MODEL [--json] [--url=<server>]
  nereid config generate [--output=<file>] [--data-dir=<folder>] FILE|FOLDER
  nereid config show [options of nereid serve]

get prints the configuration that a server uses for a model; see nereid config get --help.

FOLDER is a model folder, whose config.pbtxt is completed from its newest version, or a version folder. FILE is a model
file. The configuration goes to standard output, or to a new file.

show prints the options that nereid serve would use, and where each comes from: the command line, the environment, or a
line of the file of --config-file. It is a configuration file itself. Passwords are hidden.
`

// Validate runs "nereid validate …".
func Validate(ctx context.Context, e *command.Env, args []string) int {
	flags := flag.NewFlagSet("nereid validate", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	name := flags.String("model-config-name", "", "")
	namespaces := flags.Bool("model-namespacing", false, "")
	dataDir := flags.String("data-dir", "", "")
	gpus := flags.String("gpus", "auto", "")
	if status, done := e.Parse(flags, args, validateUsage); done {
		return status
	}
	if flags.NArg() == 0 {
		fmt.Fprint(e.Stderr, "error: name at least one model repository\n\n"+validateUsage)
		return 2
	}
	if *name != "" {
		if err := options.CheckFileName(*name); err != nil {
			fmt.Fprintf(e.Stderr, "error: --model-config-name: %v\n", err)
			return 2
		}
	}
	o, closeBackends, err := backends.OpenInspection(*dataDir, e.Lookup)
	if err != nil {
		fmt.Fprintf(e.Stderr, "error: %v\n", err)
		return 2
	}
	defer closeBackends()
	o.ConfigName, o.Namespaces = *name, *namespaces
	if o.GPUs, err = gpusToAssume(*gpus, e.Stderr); err != nil {
		fmt.Fprintf(e.Stderr, "error: %v\n", err)
		return 2
	}
	r := inspect.Repositories(ctx, flags.Args(), o)
	if *asJSON {
		err = printJSON(e.Stdout, r)
	} else {
		err = printReport(e.Stdout, r)
	}
	for _, path := range flags.Args() {
		if above, is := inspect.ModelFolder(path); is {
			fmt.Fprintf(e.Stderr, "note: %s looks like one model's own folder; a model repository is the folder "+
				"above it: nereid validate %s\n", path, above)
		}
	}
	if err != nil {
		fmt.Fprintf(e.Stderr, "error: %v\n", err)
		return 2
	}
	if r.Errors > 0 {
		return 1
	}
	return 0
}

// warnings is a log for commands.
func warnings(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// gpusToAssume returns the numbers of the GPUs that --gpus stands for.
func gpusToAssume(value string, stderr io.Writer) ([]int32, error) {
	if value == "auto" {
		m := backends.OpenMachine(options.Default(false), warnings(stderr))
		return m.IDs(), m.Close()
	}
	n, err := strconv.ParseUint(value, 10, 8)
	if err != nil {
		return nil, fmt.Errorf("--gpus: %q is neither auto nor a number from 0 to 255", value)
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i)
	}
	return ids, nil
}

func printReport(w io.Writer, r inspect.Report) error {
	var b strings.Builder
	for _, why := range r.Unread {
		fmt.Fprintln(&b, why)
	}
	bad := 0
	for _, m := range r.Models {
		for _, f := range m.Faults {
			fmt.Fprintln(&b, f.Error())
		}
		if m.Faults.Err() != nil {
			bad++
		}
	}
	fmt.Fprintf(&b, "%s, %d with errors; %s, %s\n",
		counted(len(r.Models), "model"), bad, counted(r.Errors, "error"), counted(r.Warnings, "warning"))
	_, err := io.WriteString(w, b.String())
	return err
}

// counted is a number with its noun: "1 model", "2 models".
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Config runs "nereid config …".
func Config(ctx context.Context, e *command.Env, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(e.Stdout, configUsage)
		return 0
	}
	if args[0] == "show" {
		c, status := options.ForCommand(e, false, "nereid config show", args[1:])
		if c == nil {
			return status
		}
		return e.ExitStatus(c.Show(e.Stdout), "")
	}
	flags := flag.NewFlagSet("nereid config generate", flag.ContinueOnError)
	output := flags.String("output", "", "")
	dataDir := flags.String("data-dir", "", "")
	if status, done := e.Parse(flags, args[1:], configUsage); done {
		return status
	}
	if args[0] != "generate" || flags.NArg() != 1 {
		fmt.Fprint(e.Stderr, "error: nereid config wants show, get and a model, or generate and one file or folder\n\n"+
			configUsage)
		return 2
	}
	o, closeBackends, err := backends.OpenInspection(*dataDir, e.Lookup)
	if err != nil {
		fmt.Fprintf(e.Stderr, "error: %v\n", err)
		return 2
	}
	defer closeBackends()
	text, err := inspect.Generate(ctx, flags.Arg(0), o)
	if err == nil {
		err = writeConfig(*output, text, e.Stdout)
	}
	if err != nil {
		fmt.Fprintf(e.Stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// writeConfig writes to a new file, or to stdout if output is empty.
func writeConfig(output, text string, stdout io.Writer) error {
	if output == "" {
		_, err := io.WriteString(stdout, text)
		return err
	}
	f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; remove it first, or name another file", output)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
