//go:build mutant_series_mark

package python

// Broken on purpose: see build/mutants.txt.
const (
	alteredModule = "_nereid_series.py"
	alteredText   = "self._count, self._end, self._mark = self._count + 1, at + layout.size, ended"
	alteredInto   = "self._count, self._end = self._count + 1, at + layout.size"
)
