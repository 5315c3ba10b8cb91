package h2

import "time"

// limits bound the work that a client can cause without making calls. Only the reader uses them. Every error closes the
// connection with ENHANCE_YOUR_CALM.
type limits struct {
	resets, empty, settings, late tokenBucket
	pings                         struct {
		last  time.Time
		early int // pings that came too early
	}
}

// tokenBucket allows burst events at once and rate per second in the long run.
type tokenBucket struct {
	used float64
	last time.Time
}

func (b *tokenBucket) take(burst, rate float64, fault string) error {
	now := time.Now()
	if !b.last.IsZero() {
		b.used = max(0, b.used-rate*now.Sub(b.last).Seconds())
	}
	b.last = now
	b.used++
	if b.used > burst {
		return &connError{codeEnhanceYourCalm, fault}
	}
	return nil
}

// reset counts a call that ends with RST_STREAM: a cancelled one, whose start was work, or a faulty one. A client may
// cancel all the calls that it may have open, twice.
func (l *limits) reset(maxStreams uint32) error {
	return l.resets.take(2*float64(maxStreams), 200, "too many calls reset")
}

// emptyFrame counts a frame without effect: an unknown one, a priority, an acknowledgement, empty DATA.
func (l *limits) emptyFrame() error {
	return l.empty.take(10_000, 1000, "too many frames without content")
}

// lateData counts a DATA frame of a call that has ended. After a large message is refused, thousands of its frames may
// still be on the way.
func (l *limits) lateData() error {
	return l.late.take(20_000, 2000, "too much DATA for calls that have ended")
}

func (l *limits) settingsFrame() error {
	return l.settings.take(100, 10, "too many SETTINGS")
}

// maxEarlyPings is how many pings may come too early.
const maxEarlyPings = 2

// ping applies the enforcement policy to a ping. allowed: frames of a call were sent since the last ping, so that the
// client may be measuring the connection. calls: calls are open.
func (l *limits) ping(o *Options, allowed, calls bool) error {
	now := time.Now()
	last := l.pings.last
	l.pings.last = now
	if allowed {
		l.pings.early = 0
		return nil
	}
	interval := o.Enforcement.MinTime
	if !calls && !o.Enforcement.PermitWithoutStream {
		interval = 2 * time.Hour // gRPC's interval for connections without calls
	}
	if !last.IsZero() && now.Sub(last) < interval {
		l.pings.early++
	}
	if l.pings.early > maxEarlyPings {
		return &connError{codeEnhanceYourCalm, "too_many_pings"}
	}
	return nil
}
