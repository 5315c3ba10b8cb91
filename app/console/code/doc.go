// Package code finds the parts of a model that run as code on this machine: files, by their name and content, and what
// a configuration makes the server load or run. The console asks for consent before such a model is loaded.
//
// It reads the configuration as the server would. Where it cannot know, it assumes code. It runs and unpacks nothing,
// and starts no goroutine.
package code
