package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"nereid/app/inspect"
	"nereid/engine/backend/builtin"
	"nereid/engine/modelconfig"
	"nereid/engine/worker"
)

const validateUsage = `Finds every fault of model repositories at once, without serving them and without running a model's code.

Usage:
  nereid validate [--json] [--gpus=<number>|auto] [--model-config-name=<name>] [--model-namespacing] [--data-dir=<folder>] REPOSITORY...

--gpus is how many GPUs the machine has that is to serve; auto, the default, asks this one.

Prints a line for each fault: file:line:column: what is wrong; how to mend it. The exit status is 0 when every model can
be loaded as far as its files tell (warnings do not count), 1 when one cannot, 2 when the command itself is wrong.
`

const configUsage = `Writes configurations from model files.

Usage:
  nereid config generate [--output=<file>] [--data-dir=<folder>] FILE|FOLDER

FOLDER is a model folder, whose config.pbtxt is completed from its newest version, or a version folder. FILE is a model
file. The configuration goes to standard output, or to a file that is not there yet.
`

// validateCommand runs "nereid validate …".
func validateCommand(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("nereid validate", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	asJSON := flags.Bool("json", false, "")
	name := flags.String("model-config-name", "", "")
	namespaces := flags.Bool("model-namespacing", false, "")
	dataDir := flags.String("data-dir", "", "")
	gpus := flags.String("gpus", "auto", "")
	if code, end := parsed(flags.Parse(args), validateUsage, stdout, stderr); end {
		return code
	}
	if flags.NArg() == 0 {
		fmt.Fprint(stderr, "error: name at least one model repository\n\n"+validateUsage)
		return 2
	}
	o, closeBackends, err := inspectOptions(*dataDir, lookup)
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 2
	}
	defer closeBackends()
	o.ConfigName, o.Namespaces = *name, *namespaces
	if o.GPUs, err = gpusToAssume(*gpus, stderr); err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 2
	}
	r := inspect.Repositories(ctx, flags.Args(), o)
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = printReport(stdout, r)
	}
	for _, path := range flags.Args() {
		if above, is := modelFolder(path); is {
			fmt.Fprintf(stderr, "note: %s looks like one model's own folder; a model repository is the folder above it: nereid validate %s\n", path, above)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 2
	}
	if r.Errors > 0 {
		return 1
	}
	return 0
}

// gpusToAssume returns the numbers of the GPUs that --gpus stands for.
func gpusToAssume(value string, stderr io.Writer) ([]int32, error) {
	if value == "auto" {
		m := openMachine(defaults(false), slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
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

// ended answers how a command came out with its exit status; help, which was asked for, is its usage.
func ended(err error, use string, stdout, stderr io.Writer) int {
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, use)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// parsed ends a command whose options are wrong, or that is asked for its use.
func parsed(err error, use string, stdout, stderr io.Writer) (code int, end bool) {
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, use)
		return 0, true
	case err != nil:
		fmt.Fprintf(stderr, "error: %v\n\n%s", err, use)
		return 2, true
	}
	return 0, false
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
	fmt.Fprintf(&b, "%s, %d with errors; %s, %s\n", counted(len(r.Models), "model"), bad, counted(r.Errors, "error"), counted(r.Warnings, "warning"))
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

// configCommand runs "nereid config …".
func configCommand(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(stdout, configUsage)
		return 0
	}
	flags := flag.NewFlagSet("nereid config generate", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	output := flags.String("output", "", "")
	dataDir := flags.String("data-dir", "", "")
	if code, end := parsed(flags.Parse(args[1:]), configUsage, stdout, stderr); end {
		return code
	}
	if args[0] != "generate" || flags.NArg() != 1 {
		fmt.Fprint(stderr, "error: nereid config wants generate and one file or folder\n\n"+configUsage)
		return 2
	}
	o, closeBackends, err := inspectOptions(*dataDir, lookup)
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 2
	}
	defer closeBackends()
	text, err := inspect.Generate(ctx, flags.Arg(0), o)
	if err == nil {
		err = writeConfig(*output, text, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// writeConfig never takes the place of a file.
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

// inspectOptions has the server's backends. What ONNX Runtime needs is unpacked into the data folder, as the server does.
func inspectOptions(given string, lookup func(string) (string, bool)) (inspect.Options, func(), error) {
	dir, err := commandDataDir(given, lookup)
	if err != nil {
		return inspect.Options{}, nil, err
	}
	c := defaults(false)
	if v, ok := lookup("NEREID_ONNXRUNTIME_LIBRARY"); ok {
		c.ONNXRuntimeLibrary = v
	}
	log := slog.New(slog.DiscardHandler) // what matters is in the faults
	d := &dataDir{path: dir}
	launcher := worker.NewLauncher(log)
	ort := newORT(c, d, nil, launcher, log)
	py, err := newPython(c, d, launcher, log)
	closeAll := func() { py.close(); launcher.Close() }
	if err != nil {
		closeAll()
		return inspect.Options{}, nil, err
	}
	return inspect.Options{
		Backends:     append(append(builtin.All(), ort.backend()), py.all...),
		AutoComplete: true, DefaultMaxBatchSize: modelconfig.DefaultMaxBatchSize, Log: log,
	}, closeAll, nil
}
