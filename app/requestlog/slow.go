package requestlog

import (
	"time"

	"nereid/engine/stats"
)

const (
	slots    = 12 // of a latencies
	slotTime = time.Hour / slots
	// fewest is how many requests a model must have had in the last hour before one of them is slow.
	fewest = 100
	slowOf = 100 // one of so many is slow
)

// latencies counts the durations of a model's requests of the last hour, by buckets of package stats.
type latencies struct {
	at    int64 // the number of the newest slot, since 1970
	count [slots]uint32
	slots [slots][stats.Buckets]uint32
	total uint32
	sum   [stats.Buckets]uint32
	limit int // the bucket of the 99th percentile; of changed requests ago
	aged  uint32
}

// advance forgets what is older than an hour.
func (l *latencies) advance(now time.Time) {
	slot := now.UnixNano() / int64(slotTime)
	if slot < l.at-slots { // the clock was set back
		*l = latencies{}
	}
	for range min(max(slot-l.at, 0), slots) {
		l.at++
		i := l.at % slots
		if l.count[i] == 0 {
			continue
		}
		l.total -= l.count[i]
		for b, n := range l.slots[i] {
			l.sum[b] -= n
		}
		l.count[i], l.slots[i] = 0, [stats.Buckets]uint32{}
		l.aged = fewest
	}
	l.at = max(l.at, slot)
}

// add counts a duration and reports whether it is slow by those before it.
func (l *latencies) add(d time.Duration, counts bool) (slow bool) {
	b := stats.Bucket(d)
	if l.total >= fewest {
		if l.aged >= min(fewest, l.total/10) {
			l.limit, l.aged = l.percentile(), 0
		}
		slow = b > l.limit
	}
	if counts {
		i := l.at % slots
		l.slots[i][b]++
		l.sum[b]++
		l.count[i]++
		l.total++
		l.aged++
	}
	return slow
}

// percentile returns the bucket of the 99th percentile.
func (l *latencies) percentile() int {
	above := l.total / slowOf
	for b := stats.Buckets - 1; b > 0; b-- {
		if l.sum[b] > above {
			return b
		}
		above -= l.sum[b]
	}
	return 0
}
