// Package app is the program: its command line, the wiring of its parts, and its life from start to exit.
//
// Goroutines: one for each listener, the recorder's and the engine's; Serve waits for all before it returns.
package app
