// Package app is the program. It reads the command line, connects the parts, and starts and stops them.
//
// Goroutines: one for each listener, the recorder's and the engine's. Serve waits for all of them before it returns.
package app
