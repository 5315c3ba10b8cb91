//go:build mutant_region_write

package python

// Broken on purpose: see build/mutants.txt.
const (
	alteredModule = "_nereid_regions.py"
	alteredText   = "or not lease.clean(lease.mapping):"
	alteredInto   = "or False:"
)
