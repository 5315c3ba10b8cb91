package stats

import (
	"math"
	"math/bits"
	"time"

	"nereid/engine/infer"
)

// The buckets of a window are a microsecond wide up to linearUs. Above, each octave has subOctave of them. So a
// bucket is at most 1/64 of its lower bound wide, and its middle is less than 1 % away from the latencies that it
// counts.
const (
	subOctaveLog = 6
	subOctave    = 1 << subOctaveLog
	linearUs     = 2 * subOctave
	octaves      = 25 // up to 2^32 us, more than an hour
	windowChunks = linearUs/subOctave + octaves
)

// window counts the latencies of the last minute in microseconds, and sums up all latencies. The memory of an octave is
// allocated with its first latency in a slot, and kept. Unlike with estimators such as CKMS, counting takes a few
// instructions. A window is not safe for concurrent use.
type window struct {
	total Total
	now   int64 // number of the current slot, since the origin of the clock
	slots [windowSlots][windowChunks]*[subOctave]uint32
}

// observe counts d at the time now.
func (w *window) observe(now infer.Stamp, d time.Duration) {
	w.advance(now)
	w.total.add(d)
	chunk, i := bucketUs(d)
	c := &w.slots[w.now%windowSlots][chunk]
	if *c == nil {
		*c = new([subOctave]uint32)
	}
	(*c)[i]++
}

// advance empties the slots that are older than the window.
func (w *window) advance(now infer.Stamp) {
	n := int64(now) / int64(slotTime)
	for range min(max(n-w.now, 0), windowSlots) {
		w.now++
		for _, c := range &w.slots[w.now%windowSlots] {
			if c != nil {
				*c = [subOctave]uint32{}
			}
		}
	}
	w.now = max(n, w.now)
}

// quantiles appends to dst, for each share, the latency in microseconds that this share of the latencies in the
// window does not exceed. It is NaN if the window is empty.
func (w *window) quantiles(now infer.Stamp, shares, dst []float64) []float64 {
	w.advance(now)
	var merged [windowChunks][subOctave]uint32
	total := uint64(0)
	for s := range w.slots {
		for k, c := range &w.slots[s] {
			if c == nil {
				continue
			}
			for i, n := range c {
				merged[k][i] += n
				total += uint64(n)
			}
		}
	}
	for _, share := range shares {
		dst = append(dst, quantileOf(&merged, total, share))
	}
	return dst
}

func quantileOf(merged *[windowChunks][subOctave]uint32, total uint64, share float64) float64 {
	if total == 0 {
		return math.NaN()
	}
	rank := uint64(math.Ceil(min(max(share, 0), 1) * float64(total)))
	seen, last := uint64(0), 0.0
	for k := range merged {
		for i, n := range &merged[k] {
			if n == 0 {
				continue
			}
			if seen, last = seen+uint64(n), middleUs(k, i); seen >= rank {
				return last
			}
		}
	}
	return last
}

// bucketUs returns the bucket of a latency.
func bucketUs(d time.Duration) (chunk, i int) {
	us := uint64(max(d, 0)) / 1000
	if us < linearUs {
		return int(us / subOctave), int(us % subOctave)
	}
	e := bits.Len64(us) - 1
	chunk = linearUs/subOctave + e - (subOctaveLog + 1)
	if chunk >= windowChunks {
		return windowChunks - 1, subOctave - 1
	}
	return chunk, int(us>>(e-subOctaveLog)) % subOctave
}

// middleUs returns the middle of a bucket, in whole microseconds.
func middleUs(chunk, i int) float64 {
	if chunk < linearUs/subOctave {
		return float64(chunk*subOctave + i)
	}
	shift := chunk - linearUs/subOctave + 1
	return float64((subOctave+i)<<shift + (1<<shift-1)/2)
}
