//go:build !linux

package perf

import "time"

func pause(d time.Duration) { time.Sleep(d) }
