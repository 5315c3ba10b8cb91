//go:build mutant_token_check

package app

// tokenCheck is broken on purpose: see build/mutants.txt.
const tokenCheck = false
