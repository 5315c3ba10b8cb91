//go:build !linux

package sched

import "time"

// nudge does nothing: only Linux has the timer for it.
type nudge struct{}

func (nudge) after(time.Duration) {}

func (nudge) close() {}
