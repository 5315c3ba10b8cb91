//go:build !linux || !cgo

package awake

import "time"

// Keeper would keep cores awake; there is none here.
type Keeper struct{}

// New returns nil: this system's cores are not kept awake.
func New(int) *Keeper { return nil }

// Slow returns false: it is not known.
func Slow() bool { return false }

// Until does nothing.
func (*Keeper) Until(time.Duration) {}

// Close does nothing.
func (*Keeper) Close() {}
