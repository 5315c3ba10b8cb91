//go:build mutant_series_hold

package python

// Broken on purpose: see build/mutants.txt.
const (
	alteredModule = "_nereid_series.py"
	alteredText   = "self._up.hold(self._end)"
	alteredInto   = "pass"
)
