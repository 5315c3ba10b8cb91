//go:build !mutant_warm_first

package instance

// warmFirst says that an instance is warmed before it takes requests.
const warmFirst = true
