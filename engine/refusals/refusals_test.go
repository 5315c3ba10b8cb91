package refusals

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nereid/engine/tensor"
)

func TestRefusalsAreCountedByCauseAndSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		add := func(n int, cause string) {
			for range n {
				l.Add(Refusal{Protocol: "http", Cause: cause, Target: strings.Repeat("x", 1000)})
			}
		}
		add(3, "not_found")
		time.Sleep(2 * time.Second)
		add(500, "invalid")
		add(1, "") // not a refusal
		time.Sleep(time.Second)
		counts, _ := l.Counts()
		if len(counts) != 2 || counts[0].Cause != "invalid" || counts[0].Total != 500 || counts[1].Total != 3 {
			t.Fatalf("counts = %+v", counts)
		}
		if got := counts[0].PerSecond[Seconds-1]; got != 500 {
			t.Errorf("%d in the last second, want 500", got)
		}
		if got := counts[1].PerSecond[Seconds-3]; got != 3 {
			t.Errorf("%d three seconds ago, want 3", got)
		}
		if got := l.LastMinute(); got != 503 {
			t.Errorf("%d in the last minute, want 503", got)
		}
		if last := l.Last(); len(last) != lastKept || len(last[0].Target) != maxText || last[0].Cause != "invalid" {
			t.Errorf("%d refusals are kept, the first is %+v", len(last), last[0])
		}
		time.Sleep(2 * Seconds * time.Second)
		add(1, "not_found")
		if got := l.LastMinute(); got != 0 {
			t.Errorf("%d in the last minute, want 0: the present second is not complete", got)
		}
		if counts, _ = l.Counts(); counts[1].Total != 4 || counts[1].PerSecond != [Seconds]uint32{} {
			t.Errorf("after a long time: %+v", counts[1])
		}
	})
}

func TestLastRefusalsComeNewestFirst(t *testing.T) {
	l := New()
	for _, s := range strings.Split(strings.Repeat("a ", lastKept)+"b c", " ") {
		l.Add(Refusal{Protocol: "grpc", Cause: "invalid", Text: s})
	}
	if last := l.Last(); last[0].Text != "c" || last[1].Text != "b" || last[2].Text != "a" || len(last) != lastKept {
		t.Errorf("last = %+v", last[:3])
	}
	var none *Log
	none.Add(Refusal{Cause: "invalid"})
	if counts, _ := none.Counts(); counts != nil || none.Last() != nil || none.LastMinute() != 0 {
		t.Error("a nil log has entries")
	}
}

func TestFailuresOfModelsAreNoRefusals(t *testing.T) {
	internal := GRPCCause(status.New(codes.Internal, ""))
	if HTTPCause(500) != "" || HTTPCause(200) != "" || internal != "" || GRPCCause(nil) != "" {
		t.Error("an answer that is no refusal has a cause")
	}
}

func TestWhatFindsNoMemoryIsNotTooLarge(t *testing.T) {
	for _, used := range []int64{0, 1 << 20} { // more than there is, and more than is left
		memory := tensor.NewBudget(1 << 20)
		memory.Add(used)
		err := memory.Take(2<<20-used, 0)
		if got := GRPCCause(status.New(codes.ResourceExhausted, err.Error())); got != "unavailable" {
			t.Errorf("the cause of %q is %q", err, got)
		}
	}
	large := status.New(codes.ResourceExhausted, "grpc: received message larger than max")
	if got := GRPCCause(large); got != "too_large" {
		t.Errorf("the cause of a large message is %q", got)
	}
}
