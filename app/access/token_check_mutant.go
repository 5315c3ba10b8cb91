//go:build mutant_token_check

package access

// tokenCheck is broken on purpose: see build/mutants.txt.
const tokenCheck = false
