//go:build race

package onnxruntime_test

// race says that the race detector is on; it makes sync.Pool forget at random.
const race = true
