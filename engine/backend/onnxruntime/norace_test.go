//go:build !race

package onnxruntime_test

// race reports whether the race detector is on. It makes sync.Pool drop values at random.
const race = false
