// Package compare measures how much two tensors differ. Its functions are pure and start no goroutine.
package compare
