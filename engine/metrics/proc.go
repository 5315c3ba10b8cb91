package metrics

import (
	"time"

	"nereid/engine/system/proc"
)

// cpuSampler measures the share of the cores' time that was not idle, between two reads of /proc/stat.
type cpuSampler struct {
	proc  string
	every time.Duration

	last        time.Time // when busy and total were read; zero: never
	busy, total time.Duration
	value       float64 // of the interval that ended at last
}

// utilization returns the share, 0 to 1, in the last interval of at least c.every. It is 0 during the first interval.
func (c *cpuSampler) utilization(now time.Time) (float64, error) {
	if !c.last.IsZero() && now.Sub(c.last) < c.every {
		return c.value, nil
	}
	busy, total, err := proc.CPUTimes(c.proc)
	if err != nil {
		return 0, err
	}
	if !c.last.IsZero() && total > c.total {
		c.value = max(0, min(1, float64(busy-c.busy)/float64(total-c.total)))
	}
	c.last, c.busy, c.total = now, busy, total
	return c.value, nil
}
