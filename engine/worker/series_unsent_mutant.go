//go:build mutant_series_unsent

package worker

// seriesUnsent is broken on purpose: see build/mutants.txt.
const seriesUnsent = false
