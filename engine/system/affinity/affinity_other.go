//go:build !linux

package affinity

import (
	"fmt"
	"runtime"
)

func unsupported() error {
	return fmt.Errorf("host policies are not supported on %s", runtime.GOOS)
}

// Cores fails on this system, like the other functions.
func Cores() ([]int, error) { return nil, unsupported() }

// Nodes fails.
func Nodes() ([]int, error) { return nil, unsupported() }

// Apply fails for a policy that restricts anything.
func (p Policy) Apply() (memory, err error) {
	if p.Restricts() {
		return nil, unsupported()
	}
	return nil, nil
}

// Run calls f with Apply's errors.
func (p Policy) Run(f func(memory, err error)) { f(p.Apply()) }

// Restore does nothing.
func (p Policy) Restore(Policy) error { return nil }

// Current returns the zero policy.
func Current() (Policy, error) { return Policy{}, nil }

// OfThread fails.
func OfThread(int) ([]int, error) { return nil, unsupported() }
