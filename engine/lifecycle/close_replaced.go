//go:build !mutant_close_replaced

package lifecycle

// closeReplaced says that what a reload replaces is closed.
const closeReplaced = true
