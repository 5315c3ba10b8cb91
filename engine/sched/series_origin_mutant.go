//go:build mutant_series_origin

package sched

// seriesOrigin is broken on purpose: see build/mutants.txt.
const seriesOrigin = false
