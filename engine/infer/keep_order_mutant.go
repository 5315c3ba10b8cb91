//go:build mutant_keep_order

package infer

// keepOrder is broken on purpose: see build/mutants.txt.
const keepOrder = false
