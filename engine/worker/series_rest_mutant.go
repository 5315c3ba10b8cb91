//go:build mutant_series_rest

package worker

// seriesRest is broken on purpose: see build/mutants.txt.
const seriesRest = false
