// Package command defines what a command of the program is. The commands are in the packages below; package app lists
// them in one table.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Env is what a command gets from its process.
type Env struct {
	// Program is the name of the program as the user typed it, for usage texts.
	Program string
	// Version is the version of the program.
	Version string
	// Lookup reads a variable of the environment, as os.LookupEnv does.
	Lookup         func(name string) (string, bool)
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Command is one command of the program.
type Command struct {
	// Names are what the user may type; the first one is shown in the list of commands.
	Names []string
	// Args and Help are the command's line in the list of commands.
	Args, Help string
	// Hidden commands are for processes that the program starts itself. They work under any name of the program, and
	// the list does not show them.
	Hidden bool
	// Run runs the command with the arguments after its name and returns the exit status. It prints errors itself.
	Run func(ctx context.Context, env *Env, args []string) int
}

// ExitStatus returns the exit status of a command that returned err, and prints err. If err is flag.ErrHelp it prints
// usage.
func (e *Env) ExitStatus(err error, usage string) int {
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(e.Stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(e.Stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// Parse parses the options of a command before, between and after its arguments, which flags.Args then has. If done is
// true the command ends with that status: the options are wrong, or the user asked for help.
func (e *Env) Parse(flags *flag.FlagSet, args []string, usage string) (status int, done bool) {
	flags.SetOutput(io.Discard)
	err := ParseMixed(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(e.Stdout, usage)
		return 0, true
	case err != nil:
		fmt.Fprintf(e.Stderr, "error: %v\n\n%s", err, usage)
		return 2, true
	}
	return 0, false
}

// CheckRepository returns an error that says what to do if path, the value of -r, is no folder.
func CheckRepository(path string) error {
	if path == "" {
		return errors.New("name the model repository with -r, such as -r models")
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %q; make it, or name another model repository with -r", path)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%q is no folder; name the model repository with -r", path)
	}
	return nil
}

// ShellQuote writes a word so that a POSIX shell reads it unchanged.
func ShellQuote(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("-_=./,:+@%", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// IsTerminal reports whether a stream of a process is a terminal, or another device of characters.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
