//go:build !mutant_series_unsent

package worker

// seriesUnsent says that answers of a series count that were there, and not sent, when the process ended.
const seriesUnsent = true
