//go:build mutant_series_begin

package python

// Broken on purpose: see build/mutants.txt.
const (
	alteredModule = "nereid_worker.py"
	alteredText   = "self._up.begin(request._ticket)"
	alteredInto   = "pass"
)
