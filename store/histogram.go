package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// The bucket layout. Values are nanoseconds. It is fixed: blobs of any age can be merged bucket by bucket.
//
//	bucket 0                    values below 2^9 ns (512 ns)
//	bucket 1 + 16*(e-9) + s     values v with 2^e <= v < 2^(e+1), 9 <= e <= 39, and s = (v >> (e-4)) & 15
//	bucket 497                  values of 2^40 ns (about 1100 s) and above
//
// Within an octave the 16 buckets have equal width, so a bucket is at most 1/16 of its lower bound wide, and its
// middle is at most 1/32 (3.2 %) away from any value in it.
const (
	histMinExp = 9  // 2^9 ns: the lower bound of bucket 1
	histMaxExp = 40 // 2^40 ns: the lower bound of the last bucket
	histSub    = 16 // buckets in an octave
	histSubLog = 4

	// NumBuckets is the number of buckets of a Histogram.
	NumBuckets = 1 + (histMaxExp-histMinExp)*histSub + 1

	// MaxRelativeError is the largest relative error of Quantile for values from 512 ns to 1000 s.
	MaxRelativeError = 1.0 / (2 * histSub)

	histFormat = 1 // first byte of an encoded histogram
)

// BucketIndex returns the bucket that counts a latency of ns nanoseconds, from 0 to NumBuckets-1.
func BucketIndex(ns uint64) int {
	if ns < 1<<histMinExp {
		return 0
	}
	e := bits.Len64(ns) - 1
	if e >= histMaxExp {
		return NumBuckets - 1
	}
	return 1 + (e-histMinExp)*histSub + int(ns>>(e-histSubLog))&(histSub-1)
}

// BucketBounds returns the range of nanoseconds that bucket i counts: low <= v < high. The last bucket has no upper
// bound; its high is math.MaxUint64. i must be from 0 to NumBuckets-1.
func BucketBounds(i int) (low, high uint64) {
	switch {
	case i == 0:
		return 0, 1 << histMinExp
	case i == NumBuckets-1:
		return 1 << histMaxExp, math.MaxUint64
	}
	e := histMinExp + (i-1)/histSub
	width := uint64(1) << (e - histSubLog)
	low = (histSub + uint64((i-1)%histSub)) * width
	return low, low + width
}

// Histogram counts latencies in log-linear buckets from 512 ns to 1100 s, to within MaxRelativeError.
// The zero value is empty and ready. It is not safe for concurrent use.
type Histogram struct {
	counts [NumBuckets]uint64
	total  uint64
}

// Record counts one latency. A negative one counts as zero.
func (h *Histogram) Record(d time.Duration) {
	h.Add(BucketIndex(uint64(max(d, 0))), 1)
}

// Add counts n latencies in bucket i. It ignores an i that is not a bucket.
func (h *Histogram) Add(i int, n uint64) {
	if i < 0 || i >= NumBuckets {
		return
	}
	n = min(n, math.MaxUint64-h.total) // saturate rather than wrap
	h.counts[i] += n
	h.total += n
}

// Merge adds the counts of o to h.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		if n != 0 {
			h.Add(i, n)
		}
	}
}

// Reset empties h.
func (h *Histogram) Reset() { *h = Histogram{} }

// Count returns the number of latencies in h.
func (h *Histogram) Count() uint64 { return h.total }

// Above returns how many latencies are above d for certain: those in buckets that begin at d or later.
func (h *Histogram) Above(d time.Duration) (n uint64) {
	first := BucketIndex(uint64(max(d, 0)))
	if low, _ := BucketBounds(first); low < uint64(max(d, 0)) {
		first++
	}
	for _, c := range h.counts[first:] {
		n += c
	}
	return n
}

// Quantile returns the latency that a share q of the latencies does not exceed: the middle of the bucket with the
// latency of rank ceil(q*Count), at least the first. q is limited to [0, 1]. It returns 0 for an empty histogram, and
// the lower bound for a latency in the last bucket.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	if !(q > 0) { // also true for NaN
		q = 0
	}
	rank := h.total
	if q < 1 {
		rank = min(max(uint64(math.Ceil(q*float64(h.total))), 1), h.total)
	}
	var seen uint64
	for i, n := range h.counts {
		seen += n
		if seen >= rank {
			low, high := BucketBounds(i)
			if i == NumBuckets-1 {
				return time.Duration(low)
			}
			return time.Duration(low + (high-low)/2)
		}
	}
	return 0 // not reached, since the counts add up to total
}

// MarshalBinary returns the encoded histogram; it never fails. The encoding of an empty histogram is empty.
//
// Format: the byte 1; then, for each bucket with a count, in order, two unsigned varints (encoding/binary): the
// number of empty buckets skipped since the previous one (for the first: since bucket 0), and the count.
func (h *Histogram) MarshalBinary() ([]byte, error) {
	if h.total == 0 {
		return nil, nil
	}
	b := []byte{histFormat}
	next := 0
	for i, n := range h.counts {
		if n == 0 {
			continue
		}
		b = binary.AppendUvarint(b, uint64(i-next))
		b = binary.AppendUvarint(b, n)
		next = i + 1
	}
	return b, nil
}

// UnmarshalBinary decodes what MarshalBinary encoded. It accepts only the encoding that MarshalBinary makes of a
// histogram. After an error h is empty.
func (h *Histogram) UnmarshalBinary(b []byte) error {
	h.Reset()
	if len(b) == 0 {
		return nil
	}
	if err := h.decode(b); err != nil {
		h.Reset()
		return fmt.Errorf("latency histogram of %d bytes: %w", len(b), err)
	}
	return nil
}

var errShortHistogram = errors.New("a number is cut off, too long, or not in its shortest form")

func (h *Histogram) decode(b []byte) error {
	if b[0] != histFormat {
		return fmt.Errorf("format %d is unknown, want %d", b[0], histFormat)
	}
	if b = b[1:]; len(b) == 0 {
		return errors.New("no bucket follows the format byte")
	}
	next := uint64(0)
	for len(b) > 0 {
		skip, n := uvarint(b)
		if n <= 0 {
			return errShortHistogram
		}
		b = b[n:]
		count, n := uvarint(b)
		if n <= 0 {
			return errShortHistogram
		}
		b = b[n:]
		switch {
		case skip >= NumBuckets-next:
			return fmt.Errorf("bucket %d+%d is past the last one, %d", next, skip, NumBuckets-1)
		case count == 0:
			return fmt.Errorf("bucket %d has the count 0", next+skip)
		case count > math.MaxUint64-h.total:
			return errors.New("the counts add up to more than 2^64-1")
		}
		h.Add(int(next+skip), count)
		next += skip + 1
	}
	return nil
}

// uvarint is binary.Uvarint, but refuses (n <= 0) encodings with unnecessary zero groups at the end.
func uvarint(b []byte) (v uint64, n int) {
	v, n = binary.Uvarint(b)
	if n > 1 && b[n-1] == 0 {
		return 0, -n
	}
	return v, n
}

// mergeBlobs is the SQL function hist_merge: the encoded sum of two encoded histograms. A blob that cannot be read
// counts as empty, so that one damaged row does not stop the history.
func mergeBlobs(a, b []byte) []byte {
	var x, y Histogram
	errA, errB := x.UnmarshalBinary(a), y.UnmarshalBinary(b)
	switch {
	case errB != nil || y.total == 0:
		if errA != nil {
			return nil
		}
		return a
	case errA != nil || x.total == 0:
		return b
	}
	x.Merge(&y)
	out, _ := x.MarshalBinary()
	return out
}
