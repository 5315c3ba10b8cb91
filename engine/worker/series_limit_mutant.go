//go:build mutant_series_limit

package worker

// seriesLimit is broken on purpose: see build/mutants.txt.
const seriesLimit = false
