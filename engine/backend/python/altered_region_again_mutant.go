//go:build mutant_region_again

package python

// Broken on purpose: see build/mutants.txt.
const (
	alteredModule = "_nereid_regions.py"
	alteredText   = "if self.given < 0 and not self.clean(mapping):"
	alteredInto   = "if False:"
)
