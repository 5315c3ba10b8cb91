package sched

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// sequenceRequest returns a request of sequence id with the value n.
func sequenceRequest(id uint64, flags infer.Flags, n byte) *infer.Request {
	r := infer.NewDetached()
	r.ModelName, r.BatchSize, r.Correlation, r.Flags = "m", 1, infer.CorrelationID{Number: id}, flags
	r.Inputs = append(r.Inputs,
		tensor.Tensor{Name: "INPUT", DataType: tensor.Uint8, Shape: []int64{1, 1}, Data: []byte{n}})
	return r
}

// rowsOf lists the values of a batch, with a dot for an empty row.
func rowsOf(b *infer.Batch) (text string) {
	for _, r := range b.Requests {
		if r.Null {
			text += "."
		} else {
			text += fmt.Sprint(r.Input("INPUT").Data[0])
		}
	}
	return text
}

// answer answers a batch, as an instance does before Next.
func answer(b *infer.Batch) {
	b.Begin()
	for _, r := range b.Requests {
		resp := r.NewResponse()
		resp.Final = true
		_ = r.Respond(resp)
		r.Release()
	}
	b.End()
}

const (
	starts = infer.SequenceStart
	ends   = infer.SequenceEnd
)

func TestSequenceBatches(t *testing.T) {
	type sent struct {
		id    uint64
		flags infer.Flags
		n     byte
		shape int64 // 0: 1
	}
	for _, tt := range []struct {
		name   string
		policy SequencePolicy
		send   [][]sent // before each Next
		want   []string // rows of each batch, and when it came
	}{
		{"C027 rows stay, those between are empty", SequencePolicy{Slots: 4, MaxBatchSize: 4},
			[][]sent{{{1, starts, 1, 0}, {2, starts, 2, 0}, {3, starts, 3, 0}}, {{3, 0, 4, 0}}, {{1, ends, 5, 0}},
				{{4, starts, 6, 0}, {2, 0, 7, 0}}},
			[]string{"123 0s", "..4 0s", "5 0s", ".7.6 0s"}},
		{"C027 a row goes to the next at the end", SequencePolicy{Slots: 1, MaxBatchSize: 1},
			[][]sent{{{1, starts, 1, 0}, {2, starts, 2, 0}, {1, ends, 3, 0}, {2, ends, 4, 0}}, nil, nil, nil},
			[]string{"1 0s", "3 0s", "2 0s", "4 0s"}},
		{"C027 other shapes wait",
			SequencePolicy{Slots: 3, MaxBatchSize: 3,
				Compatibility: Compatibility{Equal: []EqualInput{{Name: "INPUT"}}}},
			[][]sent{{{1, starts, 1, 2}, {2, starts, 2, 1}, {3, starts, 3, 2}}, nil}, []string{"1.3 0s", ".2 0s"}},
		{"C028 minimum_slot_utilization is met",
			SequencePolicy{Slots: 4, MaxBatchSize: 4, MinimumUtilization: 0.5, MaxQueueDelay: time.Second},
			[][]sent{{{1, starts, 1, 0}, {2, starts, 2, 0}}}, []string{"12 0s"}},
		{"C028 minimum_slot_utilization is not met in time",
			SequencePolicy{Slots: 4, MaxBatchSize: 4, MinimumUtilization: 0.75, MaxQueueDelay: time.Second},
			[][]sent{{{1, starts, 1, 0}, {2, starts, 2, 0}}}, []string{"12 1s"}},
		{"C028 the delay alone does nothing", SequencePolicy{Slots: 4, MaxBatchSize: 4, MaxQueueDelay: time.Second},
			[][]sent{{{1, starts, 1, 0}}}, []string{"1 0s"}},
		{"C029 one request of each sequence, the oldest first", SequencePolicy{Oldest: true, Slots: 5, MaxBatchSize: 2},
			[][]sent{{{1, starts, 1, 0}, {1, 0, 2, 0}, {2, starts, 3, 0}, {3, starts, 4, 0}}, nil, nil},
			[]string{"13 0s", "42 0s"}},
		{"C029 max_candidate_sequences", SequencePolicy{Oldest: true, Slots: 2, MaxBatchSize: 4},
			[][]sent{{{1, starts, 1, 0}, {2, starts | ends, 2, 0}, {3, starts, 3, 0}}, nil}, []string{"12 0s", "3 0s"}},
		{"C029 delay", SequencePolicy{Oldest: true, Slots: 4, MaxBatchSize: 4, MaxQueueDelay: time.Second},
			[][]sent{{{1, starts, 1, 0}}}, []string{"1 1s"}},
		{"C029 preferred size goes at once",
			SequencePolicy{Oldest: true, Slots: 4, MaxBatchSize: 4, MaxQueueDelay: time.Second, Preferred: []int{2}},
			[][]sent{{{1, starts, 1, 0}, {2, starts, 2, 0}, {3, starts, 3, 0}}, nil}, []string{"12 0s", "3 1s"}},
		{"C029 full", SequencePolicy{Oldest: true, Slots: 4, MaxBatchSize: 2, MaxQueueDelay: time.Second},
			[][]sent{{{1, starts, 1, 0}, {2, starts, 2, 0}}}, []string{"12 0s"}},
		{"C029 other shapes come together later", SequencePolicy{Oldest: true, Slots: 4, MaxBatchSize: 4,
			Compatibility: Compatibility{Equal: []EqualInput{{Name: "INPUT"}}}},
			[][]sent{{{1, starts, 1, 1}, {2, starts, 2, 2}, {3, starts, 3, 1}, {4, starts, 4, 2}}, nil},
			[]string{"13 0s", "24 0s"}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tt.policy.Idle = time.Hour
			s := NewSequences(tt.policy)
			s.Attach(0)
			var all []*infer.Request
			for i, want := range tt.want {
				for _, x := range tt.send[i] {
					r := sequenceRequest(x.id, x.flags, x.n)
					if x.shape > 0 {
						r.Inputs[0].Shape = []int64{1, x.shape}
					}
					if err := s.Enqueue(r); err != nil {
						t.Fatal(err)
					}
					all = append(all, r)
				}
				start := time.Now()
				b, err := s.Next(t.Context(), 0, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprintf("%s %v", rowsOf(b), time.Since(start)); got != want {
					t.Errorf("batch %d is %s, want %s", i, got, want)
				}
				answer(b)
			}
			s.Close()
			for _, r := range all {
				r.Release()
			}
		})
	}
}

// answerOf waits for a request's response.
func answerOf(t *testing.T, r *infer.Request) error {
	t.Helper()
	resp, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Err
}

func TestSequenceTimes(t *testing.T) {
	newOne := func(t *testing.T, idle time.Duration) (*Sequences, func() *infer.Batch) {
		s := NewSequences(SequencePolicy{Slots: 1, MaxBatchSize: 1, Idle: idle})
		s.Attach(0)
		return s, func() *infer.Batch {
			t.Helper()
			b, err := s.Next(t.Context(), 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	put := func(t *testing.T, s *Sequences, id uint64, flags infer.Flags, timeout time.Duration) *infer.Request {
		t.Helper()
		r := sequenceRequest(id, flags, 1)
		r.Timeout = timeout
		if err := s.Enqueue(r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	bubble(t, "C030 E3 the slot comes back after the idle time", func(t *testing.T) {
		s, next := newOne(t, 20*ms)
		put(t, s, 1, starts, 0)
		answer(next())
		put(t, s, 2, starts, 0)
		start := time.Now()
		b := next()
		if d := time.Since(start); d < 20*ms || d > 21*ms {
			t.Errorf("the next sequence began after %v, want 20ms", d)
		}
		if err := s.Enqueue(sequenceRequest(1, 0, 1)); status.CodeOf(err) != status.InvalidArg {
			t.Errorf("the idle sequence goes on: %v", err)
		}
		answer(b)
	})
	bubble(t, "C030 each request restarts the idle time", func(t *testing.T) {
		s, _ := newOne(t, 20*ms)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				b, err := s.Next(context.Background(), 0, nil)
				if err != nil {
					return
				}
				answer(b)
			}
		}()
		flags := starts
		for range 5 {
			if err := answerOf(t, put(t, s, 1, flags, 0)); err != nil {
				t.Error(err)
			}
			flags = 0
			time.Sleep(19 * ms)
		}
		if n := s.Live(); n != 1 {
			t.Errorf("%d sequences are live 19ms after the last request, want 1", n)
		}
		time.Sleep(2 * ms)
		if n := s.Live(); n != 0 {
			t.Errorf("%d sequences are live 21ms after the last request, want 0", n)
		}
		s.Close()
		<-done
	})
	bubble(t, "C030 DV60 a long execution does not count as idle time", func(t *testing.T) {
		s, next := newOne(t, 20*ms)
		put(t, s, 1, starts, 0)
		b := next()
		time.Sleep(50 * ms)
		answer(b)
		put(t, s, 1, 0, 0)
		answer(next())
	})
	bubble(t, "C032 B046 timeouts count in the backlog only", func(t *testing.T) {
		s, next := newOne(t, time.Hour)
		inSlot := put(t, s, 1, starts, ms)
		waits := put(t, s, 2, starts, 10*ms)
		follows := put(t, s, 2, ends, 0)
		start := time.Now()
		if err := answerOf(t, waits); !errors.Is(err, errExpired) || time.Since(start) > 11*ms {
			t.Errorf("%v after %v; want %v after 10ms", err, time.Since(start), errExpired)
		}
		if err := answerOf(t, follows); !errors.Is(err, errExpired) {
			t.Errorf("what follows: %v, want %v", err, errExpired)
		}
		answer(next())
		if err := answerOf(t, inSlot); err != nil {
			t.Errorf("a request with a slot: %v", err)
		}
	})
	bubble(t, "the sequences of a removed instance end", func(t *testing.T) {
		s, next := newOne(t, time.Hour)
		r := put(t, s, 1, starts, 0)
		answer(next())
		waits := put(t, s, 1, 0, 0)
		other := put(t, s, 2, starts, 0)
		s.Remove(0)
		if err := answerOf(t, waits); !errors.Is(err, errInstanceGone) {
			t.Errorf("%v, want %v", err, errInstanceGone)
		}
		s.Attach(1)
		b, err := s.Next(t.Context(), 1, nil)
		if err != nil || b.Requests[0] != other {
			t.Fatalf("%v, %v; want the sequence of the backlog", b, err)
		}
		answer(b)
		r.Release()
	})
	bubble(t, "sequences end when an instance has lost their state", func(t *testing.T) {
		s := NewSequences(SequencePolicy{Slots: 4, MaxBatchSize: 4, Idle: time.Hour})
		s.Attach(0)
		old := put(t, s, 1, starts, 0)
		b, err := s.Next(t.Context(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer(b)
		put(t, s, 1, 0, 0)
		put(t, s, 2, starts, 0)
		if b, err = s.Next(t.Context(), 0, nil); err != nil {
			t.Fatal(err)
		}
		waits, begins := put(t, s, 1, 0, 0), put(t, s, 3, starts, 0)
		s.EndSequences(0, true)
		answer(b)
		if err := answerOf(t, waits); !errors.Is(err, errInstanceGone) {
			t.Errorf("%v, want %v", err, errInstanceGone)
		}
		put(t, s, 2, 0, 0)
		b, err = s.Next(t.Context(), 0, nil)
		if err != nil || len(b.Requests)-b.Nulls != 2 || !s.Continues(begins.Correlation) ||
			s.Continues(old.Correlation) {
			t.Fatalf("%v, %v; want the sequences that began then and later", b, err)
		}
		s.EndSequences(0, false)
		answer(b)
		if s.Continues(infer.CorrelationID{Number: 2}) || s.Continues(begins.Correlation) {
			t.Error("a sequence that began is held")
		}
	})
	bubble(t, "A062 C027 a detached instance executes its sequences to the end", func(t *testing.T) {
		s, next := newOne(t, time.Hour)
		s.Attach(1)
		put(t, s, 1, starts, 0)
		answer(next())
		s.Detach(0)
		put(t, s, 2, starts, 0) // on the other one
		put(t, s, 1, ends, 0)
		answer(next())
		if _, err := s.Next(t.Context(), 0, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("%v, want %v", err, ErrClosed)
		}
		b, err := s.Next(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer(b)
	})
	bubble(t, "C029 order is kept", func(t *testing.T) {
		s := NewSequences(SequencePolicy{Oldest: true, Slots: 4, MaxBatchSize: 4, PreserveOrdering: true,
			Idle: time.Hour})
		s.Attach(0)
		one, two := put(t, s, 1, starts, 0), put(t, s, 2, starts, 0)
		b, err := s.Next(t.Context(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Requests { // the last first
			r := b.Requests[len(b.Requests)-1-i]
			if two.Poll() != nil {
				t.Error("the second request is answered before the first")
			}
			resp := r.NewResponse()
			resp.Final = true
			_ = r.Respond(resp)
		}
		if one.Poll() == nil || two.Poll() == nil {
			t.Error("the responses are never delivered")
		}
	})
}

func TestControlsSentByAClientAreIgnored(t *testing.T) {
	s := NewSequences(SequencePolicy{Slots: 1, Idle: time.Hour, Shadowed: []string{"START"}, Controls: []Control{
		{Name: "START", Kind: ControlStart, DataType: tensor.Bool, False: []byte{0}, True: []byte{1}},
	}})
	s.Attach(0)
	r := sequenceRequest(1, starts, 5)
	r.Inputs = append([]tensor.Tensor{{Name: "START", DataType: tensor.Bool, Shape: []int64{1, 1}, Data: []byte{0}}},
		r.Inputs...)
	if err := s.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	b, err := s.Next(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := b.Requests[0]
	if len(got.Inputs) != 2 || got.Input("START").Data[0] != 1 || got.Input("INPUT").Data[0] != 5 {
		t.Errorf("inputs %v; want INPUT and the batcher's START", got.Inputs)
	}
	answer(b)
	r.Release()
}

func TestSequencesReturnNothingIfTheWorkIsGoneAfterTheGate(t *testing.T) {
	s := NewSequences(SequencePolicy{Slots: 1, Idle: time.Hour})
	s.Attach(0)
	r := sequenceRequest(1, starts, 5)
	if err := s.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	b, err := s.Next(t.Context(), 0, &Gate{Pass: func(context.Context) error { r.Cancel(); return nil }})
	if b != nil || err != nil {
		t.Fatalf("%v, %v; want nothing", b, err)
	}
	if err := answerOf(t, r); status.CodeOf(err) != status.Cancelled {
		t.Errorf("%v, want Cancelled", err)
	}
	refused := errors.New("no leave")
	again := sequenceRequest(1, starts, 6)
	if err := s.Enqueue(again); err != nil {
		t.Fatal(err)
	}
	shut := &Gate{Pass: func(context.Context) error { return refused }}
	if _, err := s.Next(t.Context(), 0, shut); !errors.Is(err, refused) {
		t.Errorf("%v, want the gate's error", err)
	}
	if err := answerOf(t, again); !errors.Is(err, errInstanceGone) {
		t.Errorf("%v, want %v", err, errInstanceGone)
	}
}

// A sequence that has begun is lost with its instance. One that has not goes to the backlog.
func TestSuspendedInstanceGivesUpItsSequences_C032(t *testing.T) {
	s := NewSequences(SequencePolicy{Slots: 2, MaxBatchSize: 2, Idle: time.Hour})
	s.Attach(0)
	begun, waits := sequenceRequest(1, starts, 1), sequenceRequest(1, 0, 2)
	again, fresh := sequenceRequest(1, starts, 3), sequenceRequest(2, starts, 4)
	put := func(all ...*infer.Request) {
		for _, r := range all {
			if err := s.Enqueue(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(begun)
	b, err := s.Next(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(waits, again, fresh)
	answer(b)
	s.Suspend(0)
	if err := answerOf(t, waits); !errors.Is(err, errInstanceGone) {
		t.Errorf("the sequence that has begun: %v, want %v", err, errInstanceGone)
	}
	other := sequenceRequest(3, starts|ends, 5)
	put(other)
	s.Attach(1)
	b, err = s.Next(t.Context(), 1, nil)
	if err != nil || len(b.Requests) != 2 || b.Requests[0] != again || b.Requests[1] != fresh {
		t.Fatalf("%v, %v; want those that have not begun", b, err)
	}
	answer(b)
	b, err = s.Next(t.Context(), 0, nil) // it can execute again
	if err != nil || b.Requests[0] != other {
		t.Fatalf("%v, %v; want the one of the backlog", b, err)
	}
	answer(b)
}
