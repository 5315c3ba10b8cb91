//go:build !mutant_await_drains

package lifecycle

// awaitDrains says that a version has left when the last of its models is closed.
const awaitDrains = true
