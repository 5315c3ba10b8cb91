// Package code finds what of a model runs as code on this machine: files by their content, and what a configuration
// makes the server load or run. The console asks before such a model is loaded.
//
// It reads the configuration as the server would, and prefers to ask once too often. It runs and unpacks nothing, and
// starts no goroutine.
package code
