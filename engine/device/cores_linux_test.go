package device

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestCoresAreBusyUnlessHalfACoreIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var idle time.Duration
		reads, ok := 0, true
		c := NewCores(func() (time.Duration, bool) { reads++; return idle, ok })
		look := func(spent time.Duration) bool {
			time.Sleep(busyInterval)
			idle += spent
			return c.Busy()
		}
		if !look(0) {
			t.Error("idle before anything was measured")
		}
		if look(busyInterval) {
			t.Error("busy with a whole core idle")
		}
		before := reads
		for range 100 {
			if c.Busy() {
				t.Error("another answer without time passing")
			}
		}
		if reads != before {
			t.Errorf("%d reads without time passing", reads-before)
		}
		if !look(busyInterval / 4) {
			t.Error("not busy with a quarter of a core idle")
		}
		look(busyInterval)
		if ok = false; look(busyInterval) {
			t.Error("the answer changed although the system reported nothing")
		}
	})
}
