//go:build !desktop && !dev && !bindings

package app

import "io"

// startPlain is what the program does without a command: serve, and open the GUI in the browser.
func startPlain(name string, args []string, stdout, stderr io.Writer) int {
	return serveCommand(false, name, append([]string{"--open"}, args...), stdout, stderr)
}
