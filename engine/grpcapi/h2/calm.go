package h2

import (
	"time"
)

// guards bound what a client can make the server do for nothing. They are the reader's.
type guards struct {
	resetTokens, controlTokens, settingsTokens, lateTokens bucket
	strikes                                                int
	lastPing                                               time.Time
}

// bucket allows burst events at once and rate a second in the long run.
type bucket struct {
	used float64
	at   time.Time
}

func (b *bucket) take(now time.Time, burst, rate float64) bool {
	if !b.at.IsZero() {
		b.used = max(0, b.used-rate*now.Sub(b.at).Seconds())
	}
	b.at = now
	b.used++
	return b.used <= burst
}

// resets counts calls that end by a reset: cancelled ones, which cost the server their beginning, and faulty ones. A
// client may cancel all that it is allowed to have open, twice over, at once.
func (g *guards) resets(s *Server) error {
	if g.resetTokens.take(time.Now(), 2*float64(s.o.MaxConcurrentStreams), 200) {
		return nil
	}
	return &connError{codeEnhanceYourCal, "too many calls reset"}
}

// control counts frames that mean nothing: unknown ones, priorities, acknowledgements, empty DATA.
func (g *guards) control(*Server) error {
	if g.controlTokens.take(time.Now(), 10_000, 1000) {
		return nil
	}
	return &connError{codeEnhanceYourCal, "too many frames without content"}
}

// late counts DATA of calls that have ended. Of a large message that was refused some thousand frames may be on the way.
func (g *guards) late(*Server) error {
	if g.lateTokens.take(time.Now(), 20_000, 2000) {
		return nil
	}
	return &connError{codeEnhanceYourCal, "too much DATA for calls that have ended"}
}

func (g *guards) settings(*Server) error {
	if g.settingsTokens.take(time.Now(), 100, 10) {
		return nil
	}
	return &connError{codeEnhanceYourCal, "too many SETTINGS"}
}

// maxStrikes is how many pings may come too early.
const maxStrikes = 2

// ping applies the enforcement policy. free: a call's frames have gone out since the last ping, as when the client
// measures its line.
func (g *guards) ping(s *Server, free, calls bool) error {
	now := time.Now()
	last := g.lastPing
	g.lastPing = now
	if free {
		g.strikes = 0
		return nil
	}
	wait := s.o.Enforcement.MinTime
	if !calls && !s.o.Enforcement.PermitWithoutStream {
		wait = 2 * time.Hour
	}
	if !last.IsZero() && now.Sub(last) < wait {
		g.strikes++
	}
	if g.strikes > maxStrikes {
		return &connError{codeEnhanceYourCal, "too_many_pings"}
	}
	return nil
}
