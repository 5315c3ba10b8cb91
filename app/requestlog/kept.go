package requestlog

import (
	"math/rand/v2"
	"slices"
	"time"

	"nereid/engine/requests"
	"nereid/store"
)

const (
	sampleRate  = 10  // ordinary requests kept in a second, in the long run
	sampleBurst = 600 // and at once, after a time with few
)

// sifter chooses the requests that are kept. Its owner looks at the new records in rounds.
type sifter struct {
	keep  func([]store.Request) bool // does not wait
	room  float64                    // ordinary requests that may be kept in this round
	last  time.Time                  // when the room was measured
	chose []requests.Record          // of the ordinary ones
	seen  int                        // ordinary ones of this round
	rows  []store.Request            // the others that are kept
	// made are requests that executions made and that are not kept yet: they end before the request of the client.
	made  []requests.Record
	roots map[int64]bool // the requests that are kept in this round
}

func newSifter(keep func([]store.Request) bool, now time.Time) *sifter {
	return &sifter{keep: keep, room: sampleBurst, last: now}
}

// begin begins a round.
func (s *sifter) begin(now time.Time) {
	s.room = min(s.room+sampleRate*max(now.Sub(s.last).Seconds(), 0), sampleBurst)
	s.last = now
	s.roots = map[int64]bool{}
}

// see looks at a new record.
func (s *sifter) see(r *requests.Record) {
	switch {
	case r.Slow || r.Outcome != requests.OK:
		s.rows = append(s.rows, Row(r))
		s.roots[r.ID] = true
	case r.Parent != 0:
		if len(s.made) == requests.Size {
			s.made = slices.Delete(s.made, 0, requests.Size/2)
		}
		s.made = append(s.made, *r)
	default: // each of them stays with the same probability
		s.seen++
		if len(s.chose) < int(s.room) {
			s.chose = append(s.chose, *r)
		} else if i := rand.IntN(s.seen); i < len(s.chose) {
			s.chose[i] = *r
		}
	}
}

// end hands over what is kept of a round.
func (s *sifter) end() {
	s.room -= float64(len(s.chose))
	for i := range s.chose {
		s.rows = append(s.rows, Row(&s.chose[i]))
		s.roots[s.chose[i].ID] = true
	}
	s.made = slices.DeleteFunc(s.made, func(r requests.Record) bool {
		if s.roots[r.Root] {
			s.rows = append(s.rows, Row(&r))
		}
		return s.roots[r.Root]
	})
	s.keep(s.rows)
	s.rows, s.seen, s.chose = nil, 0, s.chose[:0]
}

// Row is a record as the store keeps it.
func Row(r *requests.Record) store.Request {
	out := store.Request{
		ID: r.ID, TimeUS: r.Began().Time().UnixMicro(), Parent: r.Parent, Protocol: r.Protocol, Client: r.Host(),
		Model: r.Model, Version: r.Version, RequestID: r.RequestID(), Outcome: r.Outcome.String(), Slow: r.Slow,
		Cached: r.Cached, Status: r.Status, Cause: r.Cause, Text: r.Text, Target: r.Target, BytesIn: int64(r.BytesIn),
		BytesOut: int64(r.BytesOut), Responses: r.Responses, Rows: r.Rows, Instance: r.Ran.Instance,
		BusyNS: int64(r.Busy()),
	}
	if out.Instance != "" {
		out.BatchRows, out.BatchRequests = r.Ran.Rows, r.Ran.Requests
	}
	if out.BusyNS > 0 {
		out.BusyRows, out.BusyRequests = r.Ran.Before.Rows, r.Ran.Before.Requests
	}
	for i, d := range r.Phases() {
		out.PhasesNS[i] = int64(d)
	}
	return out
}
