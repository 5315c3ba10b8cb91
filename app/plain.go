//go:build !desktop && !dev && !bindings

package app

import "io"

// windowBuilt: this build has no window.
const windowBuilt = false

// startPlain is what the program does without arguments: serve, and open the GUI in the browser.
func startPlain(name string, stdout, stderr io.Writer) int {
	return serveCommand(false, name, []string{"--open"}, stdout, stderr)
}
