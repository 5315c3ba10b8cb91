//go:build mutant_series_keep

package python

// Broken on purpose: see build/mutants.txt.
const (
	alteredModule = "_nereid_codec.py"
	alteredText   = "if unseen or lent or _only(tensor):"
	alteredInto   = "if True:"
)
