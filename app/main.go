package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nereid/app/backends"
	"nereid/app/command"
	"nereid/app/command/admin"
	getcmd "nereid/app/command/get"
	perfcmd "nereid/app/command/perf"
	"nereid/app/command/terminal"
	tunecmd "nereid/app/command/tune"
	"nereid/app/control"
	"nereid/app/datadir"
	"nereid/app/licenses"
	"nereid/app/options"
	"nereid/engine"
	"nereid/engine/device"
	"nereid/store"
)

// Version is the program's own version; the build sets it.
var Version = "0.1.0-dev"

// commands returns all commands, in the order in which the help lists them.
func commands() []command.Command {
	return []command.Command{
		{Names: []string{"worker"}, Hidden: true, Run: serveWorker},
		{Names: []string{tunecmd.PrivateServe}, Hidden: true, Run: servePrivately},
		{Names: []string{"serve"}, Args: "[options]", Run: serveNow, Help: "serve; see nereid serve --help"},
		{Names: []string{""}, Args: plainArgs, Run: startPlain, Help: plainHelp},
		{Names: []string{"list"}, Args: "[options]", Run: terminal.List, Help: "list the models of a server"},
		{Names: []string{"load"}, Args: "MODEL ...", Run: terminal.Load, Help: "load models of a server"},
		{Names: []string{"unload"}, Args: "MODEL ...", Run: terminal.Unload, Help: "unload models of a server"},
		{Names: []string{"remove"}, Args: "MODEL ...", Run: terminal.Remove,
			Help: "move models of a server to its trash"},
		{Names: []string{"status"}, Args: "[options]", Run: terminal.Status,
			Help: "say whether a server is live and ready"},
		{Names: []string{"infer"}, Args: "MODEL ...", Run: terminal.Infer,
			Help: "send a request with numbers, texts, images or files; see nereid infer --help"},
		{Names: []string{"stats"}, Args: "[MODEL]", Run: terminal.Stats, Help: "print requests and times of models"},
		{Names: []string{"top"}, Args: "[MODEL]", Run: terminal.Top, Help: "show what each model does now"},
		{Names: []string{"metrics"}, Args: "...", Run: terminal.Metrics, Help: "print the metrics of a server"},
		{Names: []string{"logs"}, Args: "[options]", Run: terminal.Logs, Help: "print or follow the log of a server"},
		{Names: []string{"completion"}, Args: "SHELL", Run: terminal.Completion,
			Help: "print the completion of a shell"},
		{Names: []string{terminal.CompleteName}, Hidden: true, Run: complete},
		{Names: []string{terminal.ManualName}, Hidden: true, Run: manual},
		{Names: []string{"get"}, Args: "SOURCE", Run: getcmd.Run,
			Help: "bring a model from a URL, a hub, a registry or a Python package; see nereid get --help"},
		{Names: []string{"convert"}, Args: "FILE", Run: convertModel,
			Help: "convert a trained model to ONNX and compare the two; see nereid convert --help"},
		{Names: []string{"validate"}, Args: "...", Run: admin.Validate,
			Help: "find every fault of model repositories; see nereid validate --help"},
		{Names: []string{"inspect"}, Args: "...", Run: inspectModel,
			Help: "say what is in an ONNX model and where its time goes; see nereid inspect --help"},
		{Names: []string{"config"}, Args: "get|generate|show", Run: showConfig,
			Help: "print a served model's configuration, write one, or show the options; see nereid config --help"},
		{Names: []string{"perf"}, Args: "...", Run: perfcmd.Run,
			Help: "measure a server under load; see nereid perf --help"},
		{Names: []string{"tune"}, Args: "...", Run: tune,
			Help: "find a model's best configuration; see nereid tune --help"},
		{Names: []string{"devices"}, Args: "[options]", Run: admin.Devices,
			Help: "show the CPUs and GPUs that models may use"},
		{Names: []string{"token"}, Args: "...", Run: admin.Token,
			Help: "make, list and revoke access tokens; see nereid token --help"},
		{Names: []string{"link"}, Run: admin.Link,
			Help: "print a link that opens the running server's GUI for a browser of another user"},
		{Names: []string{"backup"}, Args: "<file>", Run: admin.Backup,
			Help: "copy history, settings and tokens into a file; nereid restore takes them back"},
		{Names: []string{"restore"}, Run: admin.Restore},
		{Names: []string{"support"}, Args: "[file]", Run: admin.Support,
			Help: "write a bundle for a person who looks into a problem; it has no secrets"},
		{Names: []string{"install"}, Args: "...", Run: admin.Install,
			Help: "install what models of a framework need; see nereid install --help"},
		{Names: []string{"service"}, Args: "...", Run: admin.Service,
			Help: "run as a service of systemd; see nereid service --help"},
		{Names: []string{"licenses", "licences"}, Run: printLicenses,
			Help: "print the licences of what the program is made of"},
		{Names: []string{"version", "--version"}, Run: printVersion, Help: "print the version"},
		{Names: []string{"help", "--help", "-h"}, Run: printHelp},
	}
}

func serveNow(ctx context.Context, e *command.Env, args []string) int {
	return serveCommand(ctx, e, false, e.Program+" serve", args)
}

func tune(ctx context.Context, e *command.Env, args []string) int {
	return tunecmd.Run(ctx, e, tuneProgram(), args)
}

func showConfig(ctx context.Context, e *command.Env, args []string) int {
	if len(args) > 0 && args[0] == "get" {
		return terminal.GetConfig(ctx, e, args[1:])
	}
	return admin.Config(ctx, e, args)
}

func complete(ctx context.Context, e *command.Env, args []string) int {
	return terminal.Complete(ctx, e, commands(), args)
}

func manual(ctx context.Context, e *command.Env, args []string) int {
	return terminal.Manual(ctx, e, commands(), args)
}

func printLicenses(_ context.Context, e *command.Env, _ []string) int {
	return e.ExitStatus(licenses.Write(e.Stdout), "")
}

func printVersion(_ context.Context, e *command.Env, _ []string) int {
	fmt.Fprintf(e.Stdout, "nereid %s (Triton protocol %s)\n", e.Version, engine.ServerVersion)
	return 0
}

func printHelp(_ context.Context, e *command.Env, _ []string) int {
	fmt.Fprint(e.Stdout, commandList())
	return 0
}

// commandList is the text of nereid help.
func commandList() string {
	var b strings.Builder
	b.WriteString("Nereid serves model repositories with Triton's protocols on one machine.\n\nUsage:\n")
	for _, c := range commands() {
		if c.Help != "" {
			line := strings.Join(slices.DeleteFunc([]string{"nereid", c.Names[0], c.Args},
				func(s string) bool { return s == "" }), " ")
			fmt.Fprintf(&b, "  %-24s %s\n", line, c.Help)
		}
	}
	b.WriteString("\nUnder the name tritonserver the program takes its options at once and has its defaults.\n")
	return b.String()
}

// Main runs the program and returns its exit status: 0, or 1 after an error that it has printed.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx := context.Background()
	if err := setEnvironment(); err != nil {
		fmt.Fprintln(stderr, "error: preparing the environment:", err)
		return 1
	}
	env := &command.Env{
		Program: filepath.Base(args[0]), Version: Version, Lookup: os.LookupEnv,
		Stdin: os.Stdin, Stdout: stdout, Stderr: stderr,
	}
	args = args[1:]
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command.Command) bool { return slices.Contains(c.Names, name) })
	switch {
	case i >= 0 && all[i].Hidden:
		return all[i].Run(ctx, env, args[1:])
	case env.Program == "tritonserver":
		return serveCommand(ctx, env, true, env.Program, args)
	case i >= 0 && name != "":
		return all[i].Run(ctx, env, args[1:])
	case name == "" || strings.HasPrefix(name, "-") || startsPlain(name):
		return startPlain(ctx, env, args)
	}
	fmt.Fprintf(stderr, "error: unknown command %q\n\n%s", name, commandList())
	return 1
}

// setEnvironment sets the variables that libraries read later, unless the user has set them. It must be called before
// anything else runs: C libraries read the environment in their threads, and crash if it grows meanwhile.
func setEnvironment() error {
	for name, value := range map[string]string{
		device.CUDAOrder:        "PCI_BUS_ID", // CUDA numbers GPUs as nvidia-smi does, not with the fastest first
		"ORT_DISABLE_TELEMETRY": "1",
	} {
		if _, ok := os.LookupEnv(name); ok {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func serveCommand(ctx context.Context, e *command.Env, asTriton bool, program string, args []string) int {
	c, status := options.ForCommand(e, asTriton, program, args)
	if c == nil {
		return status
	}
	return e.ExitStatus(Serve(ctx, c, e.Stderr), "")
}

// serveWorker runs in the process of a model.
func serveWorker(ctx context.Context, e *command.Env, args []string) int {
	return e.ExitStatus(backends.ServeWorker(ctx, args, e.Stderr), "")
}

// servePrivately serves until standard input ends. nereid tune starts its servers with it.
func servePrivately(ctx context.Context, e *command.Env, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, e.Stdin)
		cancel()
	}()
	return serveCommand(ctx, e, false, e.Program+" "+tunecmd.PrivateServe, args)
}

// tuneProgram is what nereid tune needs from this program.
func tuneProgram() tunecmd.Program {
	return tunecmd.Program{
		DataDir:      func(given string) (string, error) { return options.CommandDataDir(given, os.LookupEnv) },
		PythonFolder: datadir.Python,
		AddRevision: func(dir string, rev store.Revision) error {
			return control.With(dir, func(c *control.Client) error { return c.AddRevision(rev) })
		},
		GPUs: func(log *slog.Logger) int {
			m := backends.OpenMachine(options.Default(false), log)
			n := len(m.IDs())
			if err := m.Close(); err != nil {
				log.Warn("the GPUs' library does not close", "err", err)
			}
			return n
		},
	}
}
