//go:build mutant_region_keep

package python

// Broken on purpose: see build/mutants.txt.
const (
	alteredModule = "_nereid_regions.py"
	alteredText   = "if lease.make_own():"
	alteredInto   = "if True:"
)
