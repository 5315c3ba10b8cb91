//go:build !linux

package socket

import (
	"errors"
	"runtime"
)

// PollSet exists on Linux only.
type PollSet struct{}

// NewPollSet fails.
func NewPollSet() (*PollSet, error) {
	return nil, errors.New("poll sets are not supported on " + runtime.GOOS)
}

// Add does nothing.
func (p *PollSet) Add(int) error { return nil }

// Remove does nothing.
func (p *PollSet) Remove(int) {}

// Wait fails.
func (p *PollSet) Wait() ([]int, error) { return nil, errors.New("the poll set is closed") }

// Close does nothing.
func (p *PollSet) Close() {}
