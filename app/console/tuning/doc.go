// Package tuning measures models for the console: load tests of a model as it is, and tunings that search for its best
// configuration. Only one of them runs at a time, since two would distort each other's figures. Results are kept in the
// store.
//
// A running load test or tuning has one goroutine of the console's tasks.
package tuning
