package worker

import "nereid/engine/infer"

// stampClock converts the moments in frames: microseconds of the monotonic clock, which both processes read, modulo
// 2^32. So the time that a frame takes on its way does not count.
type stampClock struct {
	offset infer.Stamp // of stamps to the monotonic clock, in nanoseconds
}

// newStampClock reads both clocks several times and uses the reading that took least.
func newStampClock() stampClock {
	var c stampClock
	for least, tries := infer.Stamp(0), 0; tries < 8; tries++ {
		before := infer.Now()
		mid := monotonic()
		took := infer.Now() - before
		if tries == 0 || took < least {
			least, c.offset = took, before+took/2-infer.Stamp(mid)
		}
	}
	return c
}

// stamp returns the stamp of a moment that is at most 35 minutes ago. Moments in the future are now.
func (c stampClock) stamp(moment uint32) infer.Stamp {
	now := int64(infer.Now()-c.offset) / 1000
	ago := max(int32(uint32(now)-moment), 0)
	return infer.Stamp((now-int64(ago))*1000) + c.offset
}

// exact returns the stamp of a moment of the monotonic clock in nanoseconds. Moments before the start of that clock and
// in the future are now, because programs also give times of other clocks.
func (c stampClock) exact(nanoseconds int64) infer.Stamp {
	now := infer.Now()
	if at := infer.Stamp(nanoseconds) + c.offset; nanoseconds > 0 && at > 0 && at <= now {
		return at
	}
	return now
}
