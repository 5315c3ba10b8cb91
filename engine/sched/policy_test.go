package sched

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const ms = time.Millisecond

// asked is a request of one row with a priority and a timeout; its ID is its name.
func asked(id string, priority uint64, timeout time.Duration) *infer.Request {
	r := rows(1)
	r.ID, r.Priority, r.Timeout = id, priority, timeout
	return r
}

// next returns the names of the next batch's requests, in order.
func next(t *testing.T, d *Dynamic) string {
	t.Helper()
	b, err := d.Next(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer finish(b)
	var ids []string
	for _, r := range b.Requests {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func TestPriorities(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy Policy
		send   []*infer.Request
		want   []string
	}{
		{"C007 priority_levels: level 1 goes first, in order of arrival within a level",
			Policy{MaxBatchSize: 3, Levels: 3, DefaultLevel: 3},
			[]*infer.Request{asked("a", 3, 0), asked("b", 1, 0), asked("c", 2, 0), asked("d", 1, 0)},
			[]string{"b d c", "a"}},
		{"C007 none: priorities do not count", Policy{MaxBatchSize: 4},
			[]*infer.Request{asked("a", 3, 0), asked("b", 1, 0), asked("c", 0, 0)}, []string{"a b c"}},
		{"C008 default_priority_level: of a request that names none, or none there is",
			Policy{MaxBatchSize: 1, Levels: 3, DefaultLevel: 2},
			[]*infer.Request{asked("a", 3, 0), asked("b", 0, 0), asked("c", 4, 0), asked("d", 1, 0)},
			[]string{"d", "b", "c", "a"}},
		{"many levels", Policy{MaxBatchSize: 8, Levels: 200, DefaultLevel: 1},
			[]*infer.Request{asked("a", 200, 0), asked("b", 64, 0), asked("c", 65, 0), asked("d", 129, 0)},
			[]string{"b c d a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDynamic(tt.policy)
			for _, r := range tt.send {
				if err := d.Enqueue(r); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range tt.want {
				if got := next(t, d); got != want {
					t.Errorf("batch is %q, want %q", got, want)
				}
			}
		})
	}
}

// ended waits for a request's final response and returns its error and the time.
func ended(t *testing.T, r *infer.Request) (at time.Time, err error) {
	t.Helper()
	resp, nerr := r.Next(t.Context())
	if nerr != nil {
		t.Fatal(nerr)
	}
	return time.Now(), resp.Err
}

func TestQueueTimeouts(t *testing.T) {
	own := func(d time.Duration) *infer.Request { return asked("r", 0, d) }
	for _, tt := range []struct {
		name    string
		policy  Policy
		request *infer.Request
		after   time.Duration // 0: it is not refused within a second
	}{
		{"C012 default_timeout_microseconds, E1", Policy{Queue: QueuePolicy{Timeout: 5 * ms}}, own(0), 5 * ms},
		{"C012 none", Policy{}, own(0), 0},
		{"C013 allow_timeout_override lowers, E1", Policy{Queue: QueuePolicy{Timeout: 5 * ms, AllowOverride: true}},
			own(2 * ms), 2 * ms},
		{"C013 allow_timeout_override never raises", Policy{Queue: QueuePolicy{Timeout: 5 * ms, AllowOverride: true}},
			own(time.Hour), 5 * ms},
		{"C013 a request's own timeout without leave to override", Policy{Queue: QueuePolicy{Timeout: 5 * ms}},
			own(2 * ms), 5 * ms},
		{"C013 a request's own timeout without a default", Policy{Queue: QueuePolicy{AllowOverride: true}}, own(2 * ms),
			0},
		{"C009 default_queue_policy holds for levels that are not listed",
			Policy{Levels: 2, DefaultLevel: 2, Queue: QueuePolicy{Timeout: 5 * ms},
				LevelQueue: map[int]QueuePolicy{1: {Timeout: 9 * ms}}}, asked("r", 2, 0), 5 * ms},
		{"C010 priority_queue_policy of the request's level",
			Policy{Levels: 2, DefaultLevel: 2, Queue: QueuePolicy{Timeout: 5 * ms},
				LevelQueue: map[int]QueuePolicy{1: {Timeout: 9 * ms}}}, asked("r", 1, 0), 9 * ms},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			d := NewDynamic(tt.policy)
			r := infer.NewDetached() // of this bubble
			r.BatchSize, r.ID, r.Priority, r.Timeout = 1, tt.request.ID, tt.request.Priority, tt.request.Timeout
			start := time.Now()
			if err := d.Enqueue(r); err != nil {
				t.Fatal(err)
			}
			if tt.after == 0 {
				time.Sleep(time.Second)
				synctest.Wait()
				if r.Answered() {
					t.Error("the request was answered; no timeout holds for it")
				}
				next(t, d)
				return
			}
			// The timeout is answered although no instance is free.
			at, err := ended(t, r)
			if status.CodeOf(err) != status.Unavailable || fmt.Sprint(err) != "Request timeout expired" {
				t.Errorf("answer %v %v, want Unavailable, Request timeout expired", status.CodeOf(err), err)
			}
			if got := at.Sub(start).Truncate(time.Microsecond); got != tt.after {
				t.Errorf("refused after %v, want %v", got, tt.after)
			}
		})
	}
}

func TestTimeoutActionDelay(t *testing.T) {
	bubble(t, "C011 timeout_action DELAY: behind those whose timeout has not expired", func(t *testing.T) {
		d := NewDynamic(Policy{MaxBatchSize: 1, Levels: 2, DefaultLevel: 1,
			Queue: QueuePolicy{Delay: true, Timeout: 5 * ms, AllowOverride: true}})
		send := func(id string, priority uint64, timeout time.Duration) {
			if err := d.Enqueue(asked(id, priority, timeout)); err != nil {
				t.Error(err)
			}
		}
		send("low", 2, 0)
		send("a", 1, 2*ms)
		send("b", 1, 1*ms)
		time.Sleep(3 * ms)
		send("c", 1, 0)
		var got []string
		for range 4 {
			got = append(got, next(t, d))
		}
		// b's timeout came before a's. Both go before the lower level.
		if want := []string{"c", "b", "a", "low"}; !slices.Equal(got, want) {
			t.Errorf("order %v, want %v", got, want)
		}
	})
	bubble(t, "C011 timeout_action REJECT: at the latest when a batch is formed", func(t *testing.T) {
		d := NewDynamic(Policy{MaxBatchSize: 8, Queue: QueuePolicy{Timeout: 5 * ms}})
		late := asked("late", 0, 0)
		if err := d.Enqueue(late); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * ms)
		if err := d.Enqueue(asked("b", 0, 0)); err != nil {
			t.Fatal(err)
		}
		if got := next(t, d); got != "b" {
			t.Errorf("batch %q, want b alone", got)
		}
		if _, err := ended(t, late); status.CodeOf(err) != status.Unavailable {
			t.Errorf("late request got %v, want Unavailable", err)
		}
	})
}

func TestQueueFull(t *testing.T) {
	t.Run("C014 max_queue_size, E1", func(t *testing.T) {
		d := NewDynamic(Policy{MaxBatchSize: 1, Levels: 2, DefaultLevel: 2, Queue: QueuePolicy{MaxSize: 2},
			LevelQueue: map[int]QueuePolicy{1: {MaxSize: 1}}})
		send := func(id string, priority uint64) error { return d.Enqueue(asked(id, priority, 0)) }
		for _, id := range []string{"a", "b"} {
			if err := send(id, 2); err != nil {
				t.Fatal(err)
			}
		}
		err := send("c", 2)
		if status.CodeOf(err) != status.Unavailable || fmt.Sprint(err) != "[request id: c] Exceeds maximum queue size" {
			t.Errorf("third request: %v %v, want Unavailable, [request id: c] Exceeds maximum queue size",
				status.CodeOf(err), err)
		}
		if err := send("", 2); fmt.Sprint(err) != "[request id: <id_unknown>] Exceeds maximum queue size" {
			t.Errorf("request without an ID: %v", err)
		}
		if err := send("d", 1); err != nil { // a separate level
			t.Errorf("request of another level: %v", err)
		}
		if err := send("e", 1); status.CodeOf(err) != status.Unavailable {
			t.Errorf("second request of level 1: %v, want Unavailable", err)
		}
		for _, want := range []string{"d", "a"} {
			if got := next(t, d); got != want {
				t.Errorf("batch %q, want %q", got, want)
			}
		}
		if err := send("f", 2); err != nil {
			t.Errorf("after one was taken: %v", err)
		}
	})
}

// With strict priorities, a stream of requests of level 1 that keeps the only instance busy starves level 2. A timeout
// ends the wait of the requests there.
func TestStarvation(t *testing.T) {
	bubble(t, "E2 low priority starves until its timeout frees it", func(t *testing.T) {
		d := NewDynamic(Policy{MaxBatchSize: 1, Levels: 2, DefaultLevel: 1,
			LevelQueue: map[int]QueuePolicy{2: {Timeout: 20 * ms}}})
		low := asked("low", 2, 0)
		if err := d.Enqueue(low); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 50 { // there is always one more of level 1
			if err := d.Enqueue(asked("high", 1, 0)); err != nil {
				t.Fatal(err)
			}
			if got := next(t, d); got != "high" {
				t.Fatalf("batch %q while level 1 waits", got)
			}
			time.Sleep(ms)
			if low.Answered() != (time.Since(start) > 20*ms) {
				t.Fatalf("after %v: answered %v", time.Since(start), low.Answered())
			}
		}
		if _, err := ended(t, low); status.CodeOf(err) != status.Unavailable {
			t.Errorf("low priority got %v, want Unavailable", err)
		}
	})
}

func TestWhichRequestsShareABatch(t *testing.T) {
	in := func(name string, value byte, shape ...int64) tensor.Tensor {
		return tensor.Tensor{Name: name, Shape: shape, Data: []byte{value}}
	}
	equal := func(names ...string) Policy {
		var p Policy
		for _, name := range names {
			p.Equal = append(p.Equal, EqualInput{Name: name})
		}
		return p
	}
	same := Policy{Compatibility: Compatibility{SameInputs: true}}
	for _, tt := range []struct {
		name   string
		policy Policy
		send   [][]tensor.Tensor
		want   []string
	}{
		{"C015 same shapes", equal("A"),
			[][]tensor.Tensor{{in("A", 0, 1, 4)}, {in("A", 1, 2, 4)}}, []string{"0 1"}},
		{"C015 other shapes", equal("A"),
			[][]tensor.Tensor{{in("A", 0, 1, 4)}, {in("A", 0, 1, 5)}, {in("A", 0, 1, 5)}}, []string{"0", "1 2"}},
		{"C015 order of inputs does not count",
			equal("A", "B"),
			[][]tensor.Tensor{{in("A", 0, 1, 4), in("B", 0, 1, 2)}, {in("B", 0, 1, 2), in("A", 0, 1, 4)}},
			[]string{"0 1"}},
		{"C015 values of a shape tensor",
			Policy{Compatibility: Compatibility{Equal: []EqualInput{{Name: "A", Values: true}}}},
			[][]tensor.Tensor{{in("A", 7, 1, 1)}, {in("A", 8, 1, 1)}}, []string{"0", "1"}},
		{"C020 a ragged input may differ", equal("A"),
			[][]tensor.Tensor{{in("A", 0, 1, 4), in("R", 0, 1, 3)}, {in("A", 0, 1, 4), in("R", 0, 1, 9)}},
			[]string{"0 1"}},
		{"C016 same optional inputs", same,
			[][]tensor.Tensor{{in("A", 0, 1, 4), in("O", 0, 1, 1)}, {in("O", 0, 1, 1), in("A", 0, 1, 4)}},
			[]string{"0 1"}},
		{"C016 one without the optional input", same,
			[][]tensor.Tensor{{in("A", 0, 1, 4), in("O", 0, 1, 1)}, {in("A", 0, 1, 4)}}, []string{"0", "1"}},
		{"C016 another optional input", same,
			[][]tensor.Tensor{{in("A", 0, 1, 4), in("O", 0, 1, 1)}, {in("A", 0, 1, 4), in("P", 0, 1, 1)}},
			[]string{"0", "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.policy.MaxBatchSize = 8
			d := NewDynamic(tt.policy)
			for i, inputs := range tt.send {
				r := asked(fmt.Sprint(i), 0, 0)
				r.Inputs = inputs
				if err := d.Enqueue(r); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range tt.want {
				if got := next(t, d); got != want {
					t.Errorf("batch of %q, want %q", got, want)
				}
			}
		})
	}
}

func TestCancelledRequestsLeaveAtOnce(t *testing.T) {
	t.Run("C055 dynamic batcher", func(t *testing.T) {
		d := NewDynamic(Policy{MaxBatchSize: 1, Queue: QueuePolicy{MaxSize: 2}})
		a, b := asked("a", 0, 0), asked("b", 0, 0)
		for _, r := range []*infer.Request{a, b} {
			if err := d.Enqueue(r); err != nil {
				t.Fatal(err)
			}
		}
		a.Cancel() // no instance is there
		if !a.Answered() {
			t.Fatal("a cancelled request still waits for its answer")
		}
		if err := d.Enqueue(asked("c", 0, 0)); err != nil {
			t.Errorf("the cancelled request takes its place in the queue still: %v", err)
		}
		a.Cancel() // nothing more happens
		if got := next(t, d); got != "b" {
			t.Errorf("batch %q, want b", got)
		}
		b.Cancel() // it has run
		gone := asked("gone", 0, 0)
		gone.Cancel()
		if err := d.Enqueue(gone); err != nil || !gone.Answered() {
			t.Fatalf("Enqueue of a cancelled request: %v, answered %v", err, gone.Answered())
		}
		if _, err := ended(t, gone); status.CodeOf(err) != status.Cancelled {
			t.Errorf("cancelled request got %v, want Cancelled", err)
		}
		if got := next(t, d); got != "c" {
			t.Errorf("batch %q, want c", got)
		}
	})
	bubble(t, "the last one of a closed queue", func(t *testing.T) {
		d := NewDynamic(Policy{MaxBatchSize: 8})
		r := asked("r", 0, 0)
		if err := d.Enqueue(r); err != nil {
			t.Fatal(err)
		}
		d.Close()
		shut := &Gate{Pass: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := d.Next(ctx, 0, shut)
			done <- err
		}()
		synctest.Wait()
		r.Cancel()
		leave()
		if err := <-done; err == nil {
			t.Error("Next returned a batch although its gate is shut")
		}
		if _, err := d.Next(t.Context(), 0, nil); err != ErrClosed {
			t.Errorf("Next = %v, want ErrClosed", err)
		}
	})
}

func TestOrderIsPreserved(t *testing.T) {
	t.Run("C006 preserve_ordering", func(t *testing.T) {
		d := NewDynamic(Policy{MaxBatchSize: 2, PreserveOrdering: true})
		all := enqueue(t, d, 1, 1, 1, 1, 1)
		all[2].Cancel() // it is never executed and delays no other request
		var batches []*infer.Batch
		for range 2 {
			b, err := d.Next(t.Context(), 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			batches = append(batches, b)
		}
		finish(batches[1])
		for _, r := range all[3:] {
			if _, err := r.Next(done()); err == nil {
				t.Fatal("a response left before those of the requests before it")
			}
		}
		finish(batches[0])
		for i, r := range all {
			if _, err := r.Next(t.Context()); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
	})
	t.Run("without it an early response is delivered at once", func(t *testing.T) {
		d := NewDynamic(Policy{MaxBatchSize: 1})
		all := enqueue(t, d, 1, 1)
		_, _ = d.Next(t.Context(), 0, nil)
		b, err := d.Next(t.Context(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		finish(b)
		if _, err := all[1].Next(done()); err != nil {
			t.Errorf("the answer waits: %v", err)
		}
	})
}

// done returns a context that has ended.
func done() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}
