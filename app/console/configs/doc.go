// Package configs checks, saves and restores the configurations of models for the console, and describes the fields of
// a configuration for its editor.
//
// A Checker says what would become of a text as config.pbtxt, without loading it. A Writer replaces configuration
// files. It first stores a revision with both texts, so that no text is ever lost: after a crash in between, the old
// file and the revision are there. At the start it settles what became of the changes that a crash cut short. The store
// removes very old revisions. A file that was changed outside of the console gets a revision when the console next
// reads it.
//
// The package starts no goroutine.
package configs
