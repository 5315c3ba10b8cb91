//go:build !mutant_tell_leaving

package lifecycle

// tellLeaving says that a model which leaves service leaves the table first.
const tellLeaving = true
