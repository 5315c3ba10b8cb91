//go:build !race

package engine_test

// raceDetector says that the tests run under the race detector, where CPU time means nothing.
const raceDetector = false
