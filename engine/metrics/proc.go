package metrics

import (
	"context"
	"time"

	"nereid/engine/system/proc"
)

// cpuSampler measures the share of the cores' time that was not idle, between two reads of /proc/stat.
type cpuSampler struct {
	proc  string
	every time.Duration

	regular     bool      // Exporter.Sample calls sample every interval
	last        time.Time // when busy and total were read; zero: never
	busy, total time.Duration
	value       float64 // of the interval that ended at last
	err         error   // of the last read
}

// utilization returns the share, 0 to 1, in the last interval. If nothing samples regularly, this is one of at least
// c.every that ends now or ended before. It is 0 during the first interval.
func (c *cpuSampler) utilization(now time.Time) (float64, error) {
	if !c.regular && (c.last.IsZero() || now.Sub(c.last) >= c.every) {
		c.sample(now)
	}
	return c.value, c.err
}

// sample ends an interval and begins the next.
func (c *cpuSampler) sample(now time.Time) {
	busy, total, err := proc.CPUTimes(c.proc)
	if c.err = err; err != nil {
		return
	}
	if !c.last.IsZero() && total > c.total {
		c.value = max(0, min(1, float64(busy-c.busy)/float64(total-c.total)))
	}
	c.last, c.busy, c.total = now, busy, total
}

// restAfter is the time without a scrape after which Sample stops measuring. Scrapes of Prometheus are at most five
// minutes apart, after which it forgets a series.
const restAfter = 10 * time.Minute

// Sample measures the use of the CPU every Options.Interval, until ctx ends, so that several clients that scrape do not
// change each other's figures. It begins with a scrape, and stops when there is none for a while.
func (e *Exporter) Sample(ctx context.Context) {
	for {
		select {
		case <-e.scraped:
		case <-ctx.Done():
			return
		}
		tick := time.NewTicker(e.o.Interval)
		e.setRegular(true)
		for on := true; on; {
			select {
			case <-tick.C:
				on = e.sample(time.Now())
			case <-ctx.Done():
				on = false
			}
		}
		e.setRegular(false)
		tick.Stop()
	}
}

func (e *Exporter) setRegular(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cpu.regular = on
}

// sample returns false if the last scrape was long ago.
func (e *Exporter) sample(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cpu.sample(now)
	if now.Sub(e.lastScrape) < restAfter {
		return true
	}
	select {
	case <-e.scraped: // of a scrape before
	default:
	}
	return false
}

// noteScrape starts Sample. e.mu is held.
func (e *Exporter) noteScrape(now time.Time) {
	e.lastScrape = now
	select {
	case e.scraped <- struct{}{}:
	default:
	}
}
