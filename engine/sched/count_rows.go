//go:build !mutant_count_rows

package sched

// countRows says that a batch is cut by rows, not by requests.
const countRows = true
