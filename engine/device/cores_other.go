//go:build !linux

package device

import "time"

func idleTime() (time.Duration, bool) { return 0, false }
