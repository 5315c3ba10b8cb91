// Package classification replaces an output's values by its highest classes: Triton's classification extension. It
// starts no goroutines.
package classification
