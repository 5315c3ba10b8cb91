package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nereid/app/command"
	perfcmd "nereid/app/command/perf"
	tunecmd "nereid/app/command/tune"
	"nereid/app/licenses"
	"nereid/engine"
)

// Version is the program's own version; the build sets it.
var Version = "0.1.0-dev"

// commands returns all commands, in the order in which the help lists them.
func commands() []command.Command {
	return []command.Command{
		{Names: []string{"worker"}, Hidden: true, Run: func(_ context.Context, e *command.Env, args []string) int {
			return workerCommand(args, e.Stderr)
		}},
		{Names: []string{tunecmd.PrivateServe}, Hidden: true, Run: func(_ context.Context, e *command.Env, args []string) int {
			return privateServeCommand(e.Program, args, e.Stdin, e.Stdout, e.Stderr)
		}},
		{Names: []string{"serve"}, Args: "[options]", Help: "serve; see nereid serve --help",
			Run: func(ctx context.Context, e *command.Env, args []string) int {
				return serveCommand(ctx, e, false, e.Program+" serve", args)
			}},
		{Names: []string{""}, Args: "[options]",
			Help: "serve and open the GUI, in a window where this build has one and else in the browser", Run: startPlain},
		{Names: []string{"validate"}, Args: "...",
			Help: "find every fault of model repositories; see nereid validate --help",
			Run: func(ctx context.Context, e *command.Env, args []string) int {
				return validateCommand(ctx, args, e.Lookup, e.Stdout, e.Stderr)
			}},
		{Names: []string{"config"}, Args: "generate",
			Help: "write a config.pbtxt from a model file or folder; see nereid config --help",
			Run: func(ctx context.Context, e *command.Env, args []string) int {
				return configCommand(ctx, args, e.Lookup, e.Stdout, e.Stderr)
			}},
		{Names: []string{"perf"}, Args: "...", Help: "measure a server under load; see nereid perf --help",
			Run: perfcmd.Run},
		{Names: []string{"tune"}, Args: "...", Help: "find a model's best configuration; see nereid tune --help",
			Run: func(ctx context.Context, e *command.Env, args []string) int {
				return tunecmd.Run(ctx, e, tuneProgram(), args)
			}},
		{Names: []string{"devices"}, Args: "[options]", Help: "show the CPUs and GPUs that models may use",
			Run: func(_ context.Context, e *command.Env, args []string) int {
				return devicesCommand(args, e.Stdout, e.Stderr)
			}},
		{Names: []string{"token"}, Args: "...", Help: "make, list and revoke access tokens; see nereid token --help",
			Run: func(_ context.Context, e *command.Env, args []string) int {
				return tokenCommand(args, e.Lookup, e.Stdout, e.Stderr)
			}},
		{Names: []string{"backup"}, Args: "<file>",
			Help: "copy history, settings and tokens into a file; nereid restore takes them back",
			Run: func(_ context.Context, e *command.Env, args []string) int {
				return backupCommand("backup", args, e.Lookup, e.Stdout, e.Stderr)
			}},
		{Names: []string{"restore"}, Run: func(_ context.Context, e *command.Env, args []string) int {
			return backupCommand("restore", args, e.Lookup, e.Stdout, e.Stderr)
		}},
		{Names: []string{"install"}, Args: "...",
			Help: "install what models of a framework need; see nereid install --help",
			Run: func(_ context.Context, e *command.Env, args []string) int {
				return installCommand(args, e.Lookup, e.Stdout, e.Stderr)
			}},
		{Names: []string{"licenses", "licences"}, Help: "print the licences of what the program is made of",
			Run: func(_ context.Context, e *command.Env, _ []string) int {
				return e.ExitStatus(licenses.Write(e.Stdout), "")
			}},
		{Names: []string{"version", "--version"}, Help: "print the version",
			Run: func(_ context.Context, e *command.Env, _ []string) int {
				fmt.Fprintf(e.Stdout, "nereid %s (Triton protocol %s)\n", e.Version, engine.ServerVersion)
				return 0
			}},
		{Names: []string{"help", "--help", "-h"}, Run: func(_ context.Context, e *command.Env, _ []string) int {
			fmt.Fprint(e.Stdout, commandList())
			return 0
		}},
	}
}

// commandList is the text of nereid help.
func commandList() string {
	var b strings.Builder
	b.WriteString("Nereid serves model repositories with Triton's protocols on one machine.\n\nUsage:\n")
	for _, c := range commands() {
		if c.Help != "" {
			line := strings.Join(slices.DeleteFunc([]string{"nereid", c.Names[0], c.Args}, func(s string) bool { return s == "" }), " ")
			fmt.Fprintf(&b, "  %-24s %s\n", line, c.Help)
		}
	}
	b.WriteString("\nUnder the name tritonserver the program takes its options at once and has its defaults.\n")
	return b.String()
}

// Main runs the program and returns its exit status: 0, or 1 after an error that it has printed.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx := context.Background()
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
	case name == "" || strings.HasPrefix(name, "-"):
		return startPlain(ctx, env, args)
	}
	fmt.Fprintf(stderr, "error: unknown command %q\n\n%s", name, commandList())
	return 1
}

// readOptions reads a command line. Without a configuration the program is to end with the status: it has printed the
// help, or what is wrong.
func readOptions(asTriton bool, program string, args []string, stdout, stderr io.Writer) (*Config, int) {
	c, err := Load(asTriton, args, os.LookupEnv)
	if err != nil {
		if asTriton { // as tritonserver does
			fmt.Fprintf(stderr, "%s\n", usage(program))
		}
		fmt.Fprintf(stderr, "error: %v\n", err)
		if !asTriton {
			fmt.Fprintf(stderr, "%s --help lists the options\n", program)
		}
		return nil, 1
	}
	if c.Help {
		fmt.Fprint(stdout, usage(program))
		return nil, 0
	}
	return c, 0
}

func serveCommand(ctx context.Context, env *command.Env, asTriton bool, program string, args []string) int {
	c, code := readOptions(asTriton, program, args, env.Stdout, env.Stderr)
	if c == nil {
		return code
	}
	return env.ExitStatus(Serve(ctx, c, env.Stderr), "")
}
