package store

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// some makes requests with rising IDs; every 10th failed, every 15th was refused, every 25th is slow.
func some(n int) []Request {
	const start = 1_790_000_000_000_000
	out := make([]Request, n)
	for i := range out {
		r := Request{ID: start + int64(i)*20_000, Protocol: "http", Client: fmt.Sprintf("10.0.0.%d", i%50),
			Model: fmt.Sprintf("model_%d", i%20), Version: 1, RequestID: fmt.Sprintf("%016x", i*7919), Outcome: "ok",
			Status: 200, BytesIn: 128, BytesOut: 128, Responses: 1, Rows: 1, Instance: "model_0_0", BatchRows: 4,
			BatchRequests: 4, PhasesNS: [8]int64{9000, 2000, 150_000, 1000, 400_000, 2000, 8000, 30_000},
			BusyNS: 120_000, BusyRows: 8, BusyRequests: 8, Slow: i%25 == 0}
		r.TimeUS = r.ID + 5
		switch {
		case i%10 == 0:
			r.Outcome, r.Status, r.Text = "failed", 500, fmt.Sprintf("the model failed: code %d of 100%%", i%90)
		case i%15 == 0:
			r.Outcome, r.Status, r.Cause, r.Text = "refused", 400, "invalid", "unexpected shape for input 'IN_PUT0'"
		}
		out[i] = r
	}
	return out
}

func ids(rs []Request) (out []int64) {
	for i := range rs {
		out = append(out, rs[i].ID)
	}
	return out
}

func TestRequestsAreKeptOverARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	want := some(300)
	for batch := range slices.Chunk(want, 100) {
		if !s.RecordRequests(batch) {
			t.Fatal("requests were dropped")
		}
	}
	s.RecordRequests(want[:1]) // they are there already
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	got, err := s.Requests(t.Context(), RequestQuery{Limit: 1000})
	slices.Reverse(got)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d requests, %v; want the %d that were recorded, as they were", len(got), err, len(want))
	}
	if h := s.Health(); h.DroppedRequests != 0 || h.WriteErrors != 0 {
		t.Errorf("health %+v", h)
	}
	if oldest, err := s.OldestRequest(t.Context()); err != nil || oldest != want[0].TimeUS {
		t.Errorf("the oldest is of %d, %v, want %d", oldest, err, want[0].TimeUS)
	}
	if last, err := s.LastRequestID(t.Context()); err != nil || last != want[299].ID {
		t.Errorf("the last is %d, %v, want %d", last, err, want[299].ID)
	}
}

func TestRequestsAreFiltered(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	all := some(300)
	child := all[299]
	child.ID, child.Parent, child.Model = child.ID+1, all[299].ID, "step"
	s.RecordRequests(append(all, child))
	settle(t, s)
	for _, tt := range []struct {
		name string
		q    RequestQuery
		want func(i int) bool
	}{
		{"all that clients made", RequestQuery{}, func(int) bool { return true }},
		{"failed", RequestQuery{Outcomes: []string{"failed"}}, func(i int) bool { return i%10 == 0 }},
		{"slow", RequestQuery{Slow: true}, func(i int) bool { return i%25 == 0 }},
		{"problems", RequestQuery{Outcomes: []string{"failed", "refused"}, Slow: true},
			func(i int) bool { return i%10 == 0 || i%15 == 0 || i%25 == 0 }},
		{"model", RequestQuery{Model: "model_1"}, func(i int) bool { return i%20 == 1 }},
		{"a part of a model's name", RequestQuery{Model: "odel_1"}, func(int) bool { return false }},
		{"client", RequestQuery{Client: "10.0.0.7"}, func(i int) bool { return i%50 == 7 }},
		{"ID", RequestQuery{RequestID: all[42].RequestID}, func(i int) bool { return i == 42 }},
		{"text", RequestQuery{Text: "SHAPE for"}, func(i int) bool { return i%15 == 0 && i%10 != 0 }},
		{"text with a wildcard", RequestQuery{Text: "in_put0'"}, func(i int) bool { return i%15 == 0 && i%10 != 0 }},
		{"only a wildcard", RequestQuery{Text: "%"}, func(i int) bool { return i%10 == 0 }},
		{"text of an address", RequestQuery{Text: "0.0.49"}, func(i int) bool { return i%50 == 49 }},
		{"time", RequestQuery{FromUS: all[10].TimeUS, ToUS: all[20].TimeUS},
			func(i int) bool { return i >= 10 && i < 20 }},
		{"before", RequestQuery{BeforeID: all[3].ID}, func(i int) bool { return i < 3 }},
		{"all together", RequestQuery{Outcomes: []string{"failed"}, Model: "model_10", Client: "10.0.0.10",
			Text: "Code", FromUS: all[50].TimeUS, BeforeID: all[250].ID},
			func(i int) bool { return i == 110 || i == 210 }},
	} {
		tt.q.Limit = 1000
		got, err := s.Requests(t.Context(), tt.q)
		var want []int64
		for i := len(all) - 1; i >= 0; i-- {
			if tt.want(i) {
				want = append(want, all[i].ID)
			}
		}
		if err != nil || !slices.Equal(ids(got), want) {
			t.Errorf("%s: %v, %v; want %v", tt.name, ids(got), err, want)
		}
	}
	if got, err := s.Requests(t.Context(), RequestQuery{Model: "step"}); err != nil || len(got) != 1 {
		t.Errorf("a request that a model made: %v, %v", ids(got), err)
	}
	if got, err := s.RequestFamily(t.Context(), child.Parent); err != nil ||
		!slices.Equal(ids(got), []int64{child.Parent, child.ID}) {
		t.Errorf("with its step: %v, %v", ids(got), err)
	}
}

// A machine without a clock starts with any date, and gets the right one later: IDs only rise, times do not.
func TestRequestsAreFoundByTheirTimeAfterTheClockWasSetBack(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	if last, err := s.LastRequestID(t.Context()); err != nil || last != 0 {
		t.Errorf("the last of none is %d, %v", last, err)
	}
	if oldest, err := s.OldestRequest(t.Context()); err != nil || oldest != 0 {
		t.Errorf("the oldest of none is %d, %v", oldest, err)
	}
	list := some(4) // in 2026, with numbers that go on from 2060
	for i := range list {
		list[i].ID = 2_854_000_000_000_000 + int64(i)
	}
	list[0].TimeUS = list[0].ID
	s.RecordRequests(list)
	settle(t, s)
	got, err := s.Requests(t.Context(), RequestQuery{FromUS: list[1].TimeUS, ToUS: list[3].TimeUS})
	if want := []int64{list[2].ID, list[1].ID}; err != nil || !slices.Equal(ids(got), want) {
		t.Errorf("%v, %v; want %v", ids(got), err, want)
	}
	got, err = s.Requests(t.Context(), RequestQuery{FromUS: list[0].TimeUS})
	if want := []int64{list[0].ID}; err != nil || !slices.Equal(ids(got), want) {
		t.Errorf("of 2060: %v, %v; want %v", ids(got), err, want)
	}
}

// Pages that follow each other have each request once.
func TestRequestsHavePages(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	all := some(95)
	s.RecordRequests(all)
	settle(t, s)
	var got []int64
	q := RequestQuery{Limit: 10}
	for {
		page, err := s.Requests(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, ids(page)...)
		q.BeforeID = got[len(got)-1]
	}
	want := ids(all)
	slices.Reverse(want)
	if !slices.Equal(got, want) {
		t.Errorf("pages have %v, want %v", got, want)
	}
}

// A filter may have to look at all requests. It must not read their rows for that.
func TestFiltersOfRequestsReadOnlyTheIndex(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for _, tt := range []struct {
		q    RequestQuery
		want string
	}{
		{RequestQuery{}, "SCAN request USING COVERING INDEX request_filter"},
		{RequestQuery{Outcomes: []string{"failed"}, Slow: true, Text: "x"},
			"SCAN request USING COVERING INDEX request_problem"},
		{RequestQuery{FromUS: 1, ToUS: 9, Outcomes: []string{"failed"}},
			"SCAN request USING COVERING INDEX request_problem"},
		{RequestQuery{FromUS: 1, Text: "x"}, "SCAN request USING COVERING INDEX request_filter"},
		{RequestQuery{BeforeID: 5, Model: "m", Client: "c", RequestID: "i"},
			"SEARCH request USING INDEX request_filter (id<?)"}, // looks up what has the words
	} {
		query, args := tt.q.statement()
		got := plan(t, s, query, args)
		if all := strings.Join(got, "\n"); !slices.Contains(got, tt.want) || strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%+v: the plan is %q, want %q in it", tt.q, got, tt.want)
		}
	}
}

func plan(t *testing.T, s *Store, query string, args []any) (out []string) {
	t.Helper()
	type row struct {
		id, parent, unused int
		detail             string
	}
	rows, err := all(t.Context(), s.r, func(r *row) []any { return []any{&r.id, &r.parent, &r.unused, &r.detail} },
		"EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		out = append(out, r.detail)
	}
	return out
}

func TestOldestRequestsAreRemovedAboveTheirNumber(t *testing.T) {
	s := open(t, t.TempDir(), Options{KeepRequests: 40})
	all := some(100)
	s.RecordRequests(all)
	settle(t, s)
	p := newPruner(s)
	if _, err := p.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Requests(t.Context(), RequestQuery{Limit: 1000})
	if err != nil || len(got) != 40 || got[39].ID != all[60].ID {
		t.Errorf("%d requests are left, %v; want the last 40", len(got), err)
	}
}

func TestNoRequestsAreKeptIfTheOptionSaysSo(t *testing.T) {
	s := open(t, t.TempDir(), Options{KeepRequests: -1})
	if !s.RecordRequests(some(3)) {
		t.Error("requests count as dropped")
	}
	settle(t, s)
	if got, err := s.Requests(t.Context(), RequestQuery{}); err != nil || len(got) != 0 {
		t.Errorf("%d requests, %v; want none", len(got), err)
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRequests filters 1,000,000 kept requests. Most of the filters match none, so that all are looked at.
func BenchmarkRequests(b *testing.B) {
	s, err := Open(b.Context(), b.TempDir(), Options{MaxBytes: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const n = 1_000_000
	w := &writer{s: s}
	for batch := range slices.Chunk(some(n), 50_000) {
		w.requests = batch
		if err := w.inTx(b.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return w.writeRequests(ctx, tx)
		}); err != nil {
			b.Fatal(err)
		}
	}
	for name, q := range map[string]RequestQuery{
		"newest": {}, "slow": {Slow: true}, "cancelled": {Outcomes: []string{"cancelled"}},
		"model and failed": {Model: "model_3", Outcomes: []string{"failed"}}, "ID": {RequestID: "absent"},
		"text":             {Text: "nothing has this"},
		"time":             {FromUS: 1, ToUS: 2},
		"the oldest":       {FromUS: 1, ToUS: 1_790_000_000_000_000 + 200*20_000},
		"text of problems": {Text: "nothing", Outcomes: []string{"failed", "refused"}},
	} {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				if _, err := s.Requests(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}
