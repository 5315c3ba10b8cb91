package requests

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
)

var client net.Addr = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 4711}

type served struct{ infer.Served }

func (served) Name() string   { return "m" }
func (served) Version() int64 { return 1 }

// run records a request that is answered with a code of HTTP and a cause.
func run(l *Log, id string, code int, cause, text string) {
	a := l.Begin(HTTP, client, infer.Now())
	r := infer.New()
	r.Served, r.ID = served{}, id
	a.Attach(r)
	a.Answer(code, cause, text)
	r.Release()
	a.Sent()
}

func all(l *Log) (list []Record) {
	l.Since(l.Oldest(), func(_ int64, r *Record) { list = append(list, *r) })
	return list
}

func TestRecordSaysHowARequestEnded(t *testing.T) {
	l := New()
	run(l, "a", 200, "", "")
	run(l, "b", 400, "invalid", "unexpected shape")
	run(l, "c", 500, "", "model failed")
	l.Add(HTTP, client, "GET /nothing", 404, "not_found", "Not Found")
	a := l.Begin(GRPC, client, 0)
	a.Left()
	a.Sent()
	list := all(l)
	if len(list) != 5 {
		t.Fatalf("%d records, want 5", len(list))
	}
	for i, want := range []Outcome{OK, Refused, Failed, Refused, Cancelled} {
		if got := list[i].Outcome; got != want {
			t.Errorf("record %d: outcome %s, want %s", i, got, want)
		}
		if i > 0 && list[i].ID <= list[i-1].ID {
			t.Errorf("record %d: ID %d is not above %d", i, list[i].ID, list[i-1].ID)
		}
		if list[i].Host() != "10.0.0.7" {
			t.Errorf("record %d: host %q", i, list[i].Host())
		}
	}
	b := list[1]
	if b.RequestID() != "b" || b.Cause != "invalid" || b.Text != "unexpected shape" || b.Model != "m" ||
		b.Status != 400 {
		t.Errorf("record of the refused request: %+v", b)
	}
	if list[3].Target != "GET /nothing" {
		t.Errorf("target %q", list[3].Target)
	}
}

// A machine without a clock starts again with an earlier date than it had.
func TestIDsGoOnAfterThoseOfTheLastRun(t *testing.T) {
	l := New()
	const last = 2_854_000_000_000_000 // in 2060
	l.StartAfter(last)
	a := l.Begin(HTTP, client, 0)
	a.Sent()
	b := l.Begin(HTTP, client, 0)
	b.Sent()
	if list := all(l); len(list) != 2 || list[0].ID != last+1 || list[1].ID != last+2 {
		t.Errorf("records %+v, want the IDs %d and %d", list, last+1, last+2)
	}
}

func TestRecordIsKeptWhenAllAreDone(t *testing.T) {
	l := New()
	a := l.Begin(HTTP, client, 0)
	r := infer.New()
	a.Attach(r)
	a.Sent()
	if n := len(all(l)); n != 0 {
		t.Fatalf("%d records while the engine uses the request", n)
	}
	r.Release()
	if n := len(all(l)); n != 1 {
		t.Fatalf("%d records, want 1", n)
	}
}

func TestChildrenHaveTheirParent(t *testing.T) {
	l := New()
	a := l.Begin(GRPC, client, 0)
	parent := infer.New()
	a.Attach(parent)
	for _, err := range []error{nil, status.New(status.Internal, "broken"), status.New(status.Cancelled, "cancelled"),
		status.New(status.InvalidArg, "wrong"), errors.New("other")} {
		child := infer.New()
		child.ModelName, child.Failed = "step", err
		child.Record = parent.Record.Child(Ensemble)
		child.Release()
	}
	parent.Release()
	a.Answer(0, "", "")
	a.Sent()
	list := all(l)
	for i, want := range []Outcome{OK, Failed, Cancelled, Refused, Failed} {
		if c := list[i]; c.Parent != list[5].ID || c.Protocol != Ensemble || c.Outcome != want || c.Host() != "" {
			t.Errorf("child %d: %+v, want %s of %d", i, c, want, list[5].ID)
		}
	}
}

func TestLogKeepsTheLastRecords(t *testing.T) {
	l := New()
	for range Size + 10 {
		run(l, "", 200, "", "")
	}
	var first int64 = -1
	next, missed := l.Since(0, func(seq int64, _ *Record) {
		if first < 0 {
			first = seq
		}
	})
	if first != 10 || missed != 10 || next != Size+10 {
		t.Errorf("first %d, missed %d, next %d; want 10, 10, %d", first, missed, next, Size+10)
	}
	select {
	case <-l.Half():
	default:
		t.Error("Half did not send")
	}
	l.Mark(9) // has left
	l.Mark(10)
	if list := all(l); !list[0].Slow || list[1].Slow {
		t.Error("the wrong record is marked")
	}
}

func TestPhasesAddUp(t *testing.T) {
	ms := func(n int) infer.Stamp { return infer.Stamp(time.Hour) + infer.Stamp(n)*infer.Stamp(time.Millisecond) }
	whole := infer.Times{Arrived: ms(2), Queued: ms(3), Taken: ms(10), Input: ms(11), Output: ms(20), Finished: ms(22)}
	sums := infer.Times{Arrived: ms(1), Queued: ms(2), Taken: ms(6), Input: ms(8), Output: ms(22), Finished: ms(12)}
	for _, tt := range []struct {
		name string
		r    Record
		want [NumPhases]int // milliseconds
	}{
		{"an ensemble with steps at the same time", Record{Times: sums, Encoded: ms(13), Sent: ms(14)},
			[NumPhases]int{0, 1, 2, 1, 7, 0, 1, 1}},
		{"executed", Record{Received: ms(1), Times: whole, Encoded: ms(25), Sent: ms(30)},
			[NumPhases]int{1, 1, 7, 1, 9, 2, 3, 5}},
		{"of a model", Record{Times: whole}, [NumPhases]int{0, 1, 7, 1, 9, 2, 0, 0}},
		{"refused", Record{Received: ms(1), Encoded: ms(4), Sent: ms(5)}, [NumPhases]int{0, 3, 0, 0, 0, 0, 0, 1}},
		{"from the cache", Record{Received: ms(1), Cached: true, Times: infer.Times{Arrived: ms(2), Finished: ms(6)},
			Encoded: ms(7), Sent: ms(8)}, [NumPhases]int{1, 4, 0, 0, 0, 0, 1, 1}},
		{"cancelled in the queue", Record{Received: ms(1),
			Times:   infer.Times{Arrived: ms(2), Queued: ms(3), Finished: ms(9)},
			Encoded: ms(9), Sent: ms(10)}, [NumPhases]int{1, 1, 6, 0, 0, 0, 0, 1}},
		{"answered before the model was done", Record{Received: ms(1), Times: whole, Encoded: ms(12), Sent: ms(13)},
			[NumPhases]int{1, 1, 7, 1, 9, 2, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sum time.Duration
			for p, d := range tt.r.Phases() {
				sum += d
				if want := time.Duration(tt.want[p]) * time.Millisecond; d != want {
					t.Errorf("phase %d: %v, want %v", p, d, want)
				}
			}
			if whole := tt.r.Ended().Sub(tt.r.Began()); sum != whole {
				t.Errorf("the sum is %v, want %v", sum, whole)
			}
		})
	}
}

func TestBusyIsTheOverlapWithTheExecutionBefore(t *testing.T) {
	r := Record{Times: infer.Times{Queued: 100, Taken: 200}, Ran: infer.Ran{
		Before: infer.Execution{Started: 50, Ended: 180}}}
	if got := r.Busy(); got != 80 {
		t.Errorf("Busy = %d, want 80", got)
	}
	r.Ran.Before.Ended = 90 // before the request came
	if got := r.Busy(); got != 0 {
		t.Errorf("Busy = %d, want 0", got)
	}
}

func TestTextsAreClippedAtACharacter(t *testing.T) {
	l := New()
	run(l, strings.Repeat("é", maxID), 400, "invalid", strings.Repeat("€", maxText)+"\xff")
	r := all(l)[0]
	if r.RequestID() != strings.Repeat("é", maxID/2) || r.Text != strings.Repeat("€", maxText/3) {
		t.Errorf("ID %q, text %q", r.RequestID(), r.Text)
	}
}

func TestNilLogRecordsNothing(t *testing.T) {
	var l *Log
	a := l.Begin(HTTP, client, 0)
	r := infer.New()
	a.Attach(r)
	a.About("m")
	a.For("x")
	a.AsPage()
	a.Answer(200, "", "")
	a.Left()
	a.Sent()
	l.Add(HTTP, client, "", 404, "not_found", "")
	if r.Record != nil {
		t.Error("the request has a record")
	}
	r.Release()
}

func BenchmarkRecord(b *testing.B) {
	for name, l := range map[string]*Log{"on": New(), "off": nil} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				run(l, "a request", 200, "", "")
			}
		})
	}
}
