package worker

import (
	"testing"
	"time"

	"nereid/engine/infer"
)

func TestStampClock(t *testing.T) {
	c := newStampClock()
	now := int64(infer.Now()-c.offset) / 1000
	for _, ago := range []time.Duration{0, time.Microsecond, time.Second, 10 * time.Second, 30 * time.Minute} {
		before := infer.Now()
		got := c.stamp(uint32(now - ago.Microseconds()))
		if want := infer.Stamp((now-ago.Microseconds())*1000) + c.offset; got != want {
			t.Errorf("%v ago is %v, want %v", ago, got, want)
		}
		if got > before {
			t.Errorf("%v ago is %v, which comes after now: %v", ago, got, before)
		}
	}
	if got := c.stamp(uint32(now + 1_000_000)); got > infer.Now() {
		t.Error("a moment to come is not taken for the present one")
	}
}
