package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	perfcmd "nereid/app/command/perf"
	tunecmd "nereid/app/command/tune"
	"nereid/app/licenses"
	"nereid/engine"
)

// Version is the program's own version; the build sets it.
var Version = "0.1.0-dev"

const mainUsage = `Nereid serves model repositories with Triton's protocols on one machine.

Usage:
  nereid serve [options]   serve; see nereid serve --help
  nereid [options]         serve and open the GUI, in a window where this build has one and else in the browser
  nereid validate ...      find every fault of model repositories; see nereid validate --help
  nereid config generate   write a config.pbtxt from a model file or folder; see nereid config --help
  nereid perf ...          measure a server under load; see nereid perf --help
  nereid tune ...          find a model's best configuration; see nereid tune --help
  nereid devices [options] show the CPUs and GPUs that models may use
  nereid token ...         make, list and revoke access tokens; see nereid token --help
  nereid backup <file>     copy history, settings and tokens into a file; nereid restore takes them back
  nereid install ...       install what models of a framework need; see nereid install --help
  nereid licenses          print the licences of what the program is made of
  nereid version           print the version

Under the name tritonserver the program takes its options at once and has its defaults.
`

// Main runs the program and returns its exit status: 0, or 1 after an error that it has printed.
func Main(args []string, stdout, stderr io.Writer) int {
	name := filepath.Base(args[0])
	args = args[1:]
	if len(args) > 0 && args[0] == "worker" { // under any name: a server has started it
		return workerCommand(args[1:], stderr)
	}
	if len(args) > 0 && args[0] == tunecmd.PrivateServe { // under any name: a tuning has started it
		return privateServeCommand(name, args[1:], os.Stdin, stdout, stderr)
	}
	if name == "tritonserver" {
		return serveCommand(true, name, args, stdout, stderr)
	}
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "serve":
		return serveCommand(false, name+" serve", args[1:], stdout, stderr)
	case "devices":
		return devicesCommand(args[1:], stdout, stderr)
	case "perf":
		return perfcmd.Run(context.Background(), Version, args[1:], stdout, stderr)
	case "tune":
		return tunecmd.Run(context.Background(), tuneProgram(), args[1:], stdout, stderr)
	case "token":
		return tokenCommand(args[1:], os.LookupEnv, stdout, stderr)
	case "backup", "restore":
		return backupCommand(command, args[1:], os.LookupEnv, stdout, stderr)
	case "validate":
		return validateCommand(context.Background(), args[1:], os.LookupEnv, stdout, stderr)
	case "config":
		return configCommand(context.Background(), args[1:], os.LookupEnv, stdout, stderr)
	case "install":
		return installCommand(args[1:], os.LookupEnv, stdout, stderr)
	case "version", "--version":
		fmt.Fprintf(stdout, "nereid %s (Triton protocol %s)\n", Version, engine.ServerVersion)
		return 0
	case "licenses", "licences":
		if err := licenses.Write(stdout); err != nil {
			fmt.Fprintf(stderr, "error: %v\n", err)
			return 1
		}
		return 0
	case "help", "--help", "-h":
		fmt.Fprint(stdout, mainUsage)
		return 0
	}
	if strings.HasPrefix(command, "-") || command == "" {
		return startPlain(name, args, stdout, stderr)
	}
	fmt.Fprintf(stderr, "error: unknown command %q\n\n%s", command, mainUsage)
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

func serveCommand(asTriton bool, program string, args []string, stdout, stderr io.Writer) int {
	c, code := readOptions(asTriton, program, args, stdout, stderr)
	if c == nil {
		return code
	}
	if err := Serve(context.Background(), c, stderr); err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}
