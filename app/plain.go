//go:build !desktop && !dev && !bindings

package app

import (
	"context"

	"nereid/app/command"
)

// startPlain runs the program without a command: it serves, and opens the GUI in the browser.
func startPlain(ctx context.Context, env *command.Env, args []string) int {
	return serveCommand(ctx, env, false, env.Program, append([]string{"--open"}, args...))
}
