//go:build mutant_series_hold || mutant_series_begin || mutant_series_cancelled || mutant_series_keep || mutant_series_mark

package python

import "bytes"

// altered breaks one of our Python modules on purpose: see build/mutants.txt.
func altered(name string, text []byte) []byte {
	if name != alteredModule {
		return text
	}
	return bytes.Replace(text, []byte(alteredText), []byte(alteredInto), 1)
}
