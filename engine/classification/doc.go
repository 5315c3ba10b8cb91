// Package classification turns an output's values into its highest classes, for both protocols.
//
// Format: Triton's classification extension. No goroutines.
package classification
