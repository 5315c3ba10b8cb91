//go:build !mutant_series_origin

package sched

// seriesOrigin says that a call of a model is not executed behind requests that may wait for it.
const seriesOrigin = true
