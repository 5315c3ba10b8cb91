//go:build mutant_series_cancelled

package python

// Broken on purpose: see build/mutants.txt.
const (
	alteredModule = "nereid_worker.py"
	alteredText   = "if state is not None and state.cancelled():"
	alteredInto   = "if False:"
)
