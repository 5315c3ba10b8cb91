package worker

import "nereid/engine/infer"

// moments knows the moments that a worker tells: microseconds of the clock that both processes read, modulo 2^32. What frames take
// on their way, which differs from one to the next, is not in them.
type moments struct {
	ahead infer.Stamp // of the stamps before that clock, in nanoseconds
}

// newMoments reads both clocks until that was done at one go.
func newMoments() moments {
	var c moments
	for least, tries := infer.Stamp(0), 0; tries < 8; tries++ {
		before := infer.Now()
		mid := monotonic()
		took := infer.Now() - before
		if tries == 0 || took < least {
			least, c.ahead = took, before+took/2-infer.Stamp(mid)
		}
	}
	return c
}

// stamp returns the moment that goes by that number and lies less than 35 minutes back.
func (c moments) stamp(moment uint32) infer.Stamp {
	now := int64(infer.Now()-c.ahead) / 1000
	ago := max(int32(uint32(now)-moment), 0) // by a microsecond it may seem to come
	return infer.Stamp((now-int64(ago))*1000) + c.ahead
}
