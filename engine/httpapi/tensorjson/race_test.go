//go:build race

package tensorjson

// raceEnabled: the race detector makes pools forget at random, so allocations cannot be counted.
const raceEnabled = true
