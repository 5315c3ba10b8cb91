//go:build !linux

package device

import "time"

// Host returns the zero value: it is not implemented for this system.
func Host() HostUse { return HostUse{} }

func idleTime() (time.Duration, bool) { return 0, false }
