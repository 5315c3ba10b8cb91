package residency

import (
	"testing"
	"time"
)

func TestTheLedgerOfAnIdleServerRests(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 3, 0, time.UTC)
	happened := make(chan struct{}, 1)
	asked := 0
	p := newPace(time.Second, func() <-chan struct{} { asked++; return happened }, start)
	// wait returns after how long the ledger looks again at a time, and whether a request would end the wait.
	wait := func(after time.Duration, pending bool) (time.Duration, bool) {
		p.looked(start.Add(after), pending)
		d, wake := p.next(start.Add(after))
		return d, wake != nil
	}
	for _, tt := range []struct {
		after   time.Duration
		pending bool
		want    time.Duration
		wakes   bool
	}{
		{time.Second, false, time.Second, false},
		{calm, false, time.Second, false},
		{calm + time.Second, true, time.Second, false},
		{calm + 2*time.Second, false, 5*time.Second + time.Millisecond, true}, // at 0:01:05 until 0:01:10
	} {
		if d, wakes := wait(tt.after, tt.pending); d != tt.want || wakes != tt.wakes {
			t.Errorf("after %v: looks again in %v, woken by requests %v; want %v, %v", tt.after, d, wakes, tt.want,
				tt.wakes)
		}
	}
	p.woken(start.Add(calm + 3*time.Second))
	if d, wake := p.next(start); d != time.Second || wake != nil || asked != 2 {
		t.Errorf("after a request: looks again in %v, woken by requests %v, asked %d times", d, wake != nil, asked)
	}
	happened <- struct{}{}
	if d, _ := wait(3*calm, false); d != time.Second || asked != 3 {
		t.Errorf("after another request: looks again in %v, asked %d times", d, asked)
	}
}

func TestALedgerThatIsNotToldOfRequestsDoesNotRest(t *testing.T) {
	start := time.Now()
	p := newPace(time.Second, nil, start)
	p.looked(start.Add(2*calm), false)
	if d, _ := p.next(start.Add(2 * calm)); d != time.Second {
		t.Errorf("looks again in %v", d)
	}
}
