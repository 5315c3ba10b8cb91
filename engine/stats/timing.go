package stats

import "time"

// The window of summaries is a minute long. It consists of slots, so that it covers the last 48 to 60 seconds.
const (
	windowSlots = 5
	slotTime    = 12 * time.Second
)
