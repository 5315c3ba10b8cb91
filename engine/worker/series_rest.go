//go:build !mutant_series_rest

package worker

// seriesRest says that what a process had not begun of a series, when it ended, goes to the next one.
const seriesRest = true
