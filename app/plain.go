//go:build !desktop && !dev && !bindings

package app

import (
	"context"

	"nereid/app/command"
)

// What the help says of startPlain.
const (
	plainArgs = "[options]"
	plainHelp = "serve and open the GUI in the browser"
)

// startsPlain reports whether a first word that is no command is one for startPlain.
func startsPlain(string) bool { return false }

// startPlain runs the program without a command: it serves, and opens the GUI in the browser.
func startPlain(ctx context.Context, env *command.Env, args []string) int {
	return serveCommand(ctx, env, false, env.Program, append([]string{"--open"}, args...))
}
