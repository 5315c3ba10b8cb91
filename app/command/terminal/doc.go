// Package terminal has the commands that use a running server from a terminal: list, load, unload, infer, stats, top,
// metrics, logs, and the completion of a shell. They speak KServe v2 over HTTP, so they work with any server that does.
// A server that lacks the extension a command needs is named in the error.
//
// The commands start no goroutine.
package terminal
