//go:build !mutant_series_limit

package worker

// seriesLimit says that the limit of an execution is each one's in a series.
const seriesLimit = true
