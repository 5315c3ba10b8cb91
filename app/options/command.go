package options

import (
	"fmt"

	"nereid/app/command"
)

// ForCommand reads the options for a command. If it returns nil the command ends with that status: ForCommand has
// printed the help, or what is wrong. program is how the user starts the command.
func ForCommand(e *command.Env, asTriton bool, program string, args []string) (c *Config, status int) {
	c, err := Load(asTriton, args, e.Lookup)
	if err != nil {
		if asTriton { // as tritonserver does
			fmt.Fprintf(e.Stderr, "%s\n", Usage(program))
		}
		fmt.Fprintf(e.Stderr, "error: %v\n", err)
		if !asTriton {
			fmt.Fprintf(e.Stderr, "%s --help lists the options\n", program)
		}
		return nil, 1
	}
	if c.Help {
		fmt.Fprint(e.Stdout, Usage(program))
		return nil, 0
	}
	return c, 0
}
