//go:build mutant_last_frames

package worker

// lastFrames is broken on purpose: see build/mutants.txt.
const lastFrames = false
