package instance

import (
	"testing"
	"time"

	"nereid/engine/backend"
)

// inProcess is a model whose instances compute in this process, those of ownProcess in another one.
type inProcess struct{ backend.Model }

func (inProcess) Traits() backend.Traits { return backend.Traits{} }

type ownProcess struct{ backend.Model }

func (ownProcess) Traits() backend.Traits { return backend.Traits{OwnProcess: true} }

func TestSliceYields(t *testing.T) {
	for _, tt := range []struct {
		name     string
		model    backend.Model
		others   int32 // instances in long executions
		requests int   // of each execution; 0: 1
		ran      []time.Duration
		want     bool // the last one is followed by a yield
		locked   bool
	}{
		{name: "a short execution", model: inProcess{}, ran: []time.Duration{50 * time.Microsecond}},
		{name: "short executions that make a slice", model: inProcess{},
			ran: []time.Duration{600 * time.Microsecond, 600 * time.Microsecond}, want: true},
		{name: "a slice begins again after a yield", model: inProcess{},
			ran: []time.Duration{600 * time.Microsecond, 600 * time.Microsecond, 600 * time.Microsecond}},
		{name: "short executions of several requests", model: inProcess{}, requests: 2,
			ran: []time.Duration{600 * time.Microsecond, 600 * time.Microsecond}},
		{name: "a long execution alone", model: inProcess{}, ran: []time.Duration{5 * time.Millisecond}},
		{name: "a long execution during another", model: inProcess{}, others: 1,
			ran: []time.Duration{5 * time.Millisecond}, want: true, locked: true},
		{name: "a long execution during another, in a separate process", model: ownProcess{}, others: 1,
			ran: []time.Duration{5 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shared := &Slices{}
			s := newSlice(&Options{Model: tt.model, Slices: shared})
			defer s.free()
			shared.long.Store(tt.others)
			got := false
			for _, d := range tt.ran {
				s.begin()
				s.end(d, max(1, tt.requests))
				got = s.yield()
			}
			if got != tt.want || s.locked != tt.locked || shared.long.Load() != tt.others {
				t.Errorf("after executions of %v beside %d others: yielded %v, locked %v, %d counted; want %v, %v, %d",
					tt.ran, tt.others, got, s.locked, shared.long.Load(), tt.want, tt.locked, tt.others)
			}
		})
	}
}

// A goroutine that is locked to its thread is unlocked when nothing else computes, but not between two executions.
func TestSliceUnlocksItsThread(t *testing.T) {
	shared := &Slices{}
	s := newSlice(&Options{Model: inProcess{}, Slices: shared})
	defer s.free()
	run := func(others int32) {
		s.begin()
		if s.long && shared.long.Load() == 0 {
			t.Error("an instance in a long execution is not counted")
		}
		s.end(5*time.Millisecond, 8)
		shared.long.Store(others)
		s.yield()
		shared.long.Store(0)
	}
	run(1)
	for i := range aloneMost {
		run(0)
		if !s.locked {
			t.Fatalf("after %d slices alone the goroutine is unlocked, want %d", i+1, aloneMost+1)
		}
	}
	run(0)
	if s.locked {
		t.Errorf("after %d slices alone the goroutine is still locked to its thread", aloneMost+1)
	}
}

// A goroutine that was locked to its thread while executions were long is also unlocked if only short batches follow,
// which use up no slice: a locked goroutine is slower to wake.
func TestSliceUnlocksItsThreadForShortBatches(t *testing.T) {
	shared := &Slices{}
	s := newSlice(&Options{Model: inProcess{}, Slices: shared})
	defer s.free()
	run := func(others int32, d time.Duration) (yielded bool) {
		s.begin()
		s.end(d, 8)
		shared.long.Store(others)
		yielded = s.yield()
		shared.long.Store(0)
		return yielded
	}
	run(1, 5*time.Millisecond)
	if !s.locked {
		t.Fatal("the goroutine is not locked to its thread beside a long execution")
	}
	for range 2 * (aloneMost + 2) {
		if run(0, 600*time.Microsecond) {
			t.Error("short executions of several requests are followed by a yield")
		}
	}
	if s.locked {
		t.Errorf("after %d slices of short batches alone the goroutine is still locked to its thread", aloneMost+2)
	}
}
