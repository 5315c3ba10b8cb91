package sched

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func rows(n int) *infer.Request {
	r := infer.NewDetached()
	r.BatchSize = n
	return r
}

func enqueue(t *testing.T, d *Dynamic, sizes ...int) []*infer.Request {
	t.Helper()
	var all []*infer.Request
	for _, n := range sizes {
		r := rows(n)
		if err := d.Enqueue(r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func finish(b *infer.Batch) {
	for _, r := range b.Requests {
		r.Fail(errors.New("done"))
		r.Release()
	}
	b.Recycle()
}

func TestBatchesFollowThePolicy(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		policy Policy
		sizes  []int
		want   []int // rows of the first batches
		after  time.Duration
	}{
		{"default scheduler runs one by one", Policy{MaxBatchSize: 1}, []int{1, 1}, []int{1, 1}, 0},
		{"model without batch dimension", Policy{}, []int{1, 1}, []int{1, 1}, 0},
		{"all at once without delay", Policy{MaxBatchSize: 8}, []int{1, 2, 3}, []int{6}, 0},
		{"up to the maximum", Policy{MaxBatchSize: 4}, []int{3, 2, 2}, []int{3, 4}, 0},
		{"full goes at once", Policy{MaxBatchSize: 4, MaxQueueDelay: 5 * ms}, []int{2, 2}, []int{4}, 0},
		{"what cannot grow goes at once", Policy{MaxBatchSize: 4, MaxQueueDelay: 5 * ms}, []int{3, 2}, []int{3, 2},
			5 * ms},
		{"waits for the delay", Policy{MaxBatchSize: 4, MaxQueueDelay: 5 * ms}, []int{1}, []int{1}, 5 * ms},
		{"preferred goes at once", Policy{MaxBatchSize: 8, Preferred: []int{2, 4}, MaxQueueDelay: 5 * ms},
			[]int{1, 1, 1}, []int{2, 1}, 5 * ms},
		{"largest preferred", Policy{MaxBatchSize: 8, Preferred: []int{2, 4}, MaxQueueDelay: 5 * ms},
			[]int{1, 1, 1, 1, 1}, []int{4, 1}, 5 * ms},
		{"preferred without delay", Policy{MaxBatchSize: 8, Preferred: []int{4}}, []int{1, 1, 1, 1, 1}, []int{4, 1}, 0},
		{"what would outgrow the preferred sizes goes at once",
			Policy{MaxBatchSize: 8, Preferred: []int{4}, MaxQueueDelay: 5 * ms}, []int{3, 3}, []int{3, 3}, 5 * ms},
		{"after the delay more than preferred", Policy{MaxBatchSize: 8, Preferred: []int{6}, MaxQueueDelay: 5 * ms},
			[]int{3, 2}, []int{5}, 5 * ms},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			d := NewDynamic(tt.policy)
			start := time.Now()
			all := enqueue(t, d, tt.sizes...)
			var got []int
			for range tt.want {
				b, err := d.Next(t.Context(), 0, nil)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, b.Rows)
				finish(b)
			}
			if !slices.Equal(got, tt.want) || time.Since(start) != tt.after {
				t.Errorf("batches of %v rows after %v, want %v after %v", got, time.Since(start), tt.want, tt.after)
			}
			for _, r := range all {
				r.Release()
			}
		})
	}
}

func TestALateRequestCompletesTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDynamic(Policy{MaxBatchSize: 2, MaxQueueDelay: time.Second})
		start := time.Now()
		got := make(chan int)
		go func() {
			b, err := d.Next(t.Context(), 0, nil)
			if err != nil {
				t.Error(err)
				got <- 0
				return
			}
			got <- b.Rows
			finish(b)
		}()
		enqueue(t, d, 1)
		time.Sleep(10 * time.Millisecond) // fake clock: the instance now waits for the delay
		enqueue(t, d, 1)
		if n := <-got; n != 2 || time.Since(start) != 10*time.Millisecond {
			t.Errorf("%d rows after %v, want 2 after 10ms", n, time.Since(start))
		}
	})
}

func TestShapesThatDifferDoNotShareABatch(t *testing.T) {
	d := NewDynamic(Policy{MaxBatchSize: 8, Compatibility: Compatibility{Equal: []EqualInput{{Name: "INPUT0"}}}})
	for _, n := range []int64{4, 4, 5} {
		r := rows(1)
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT0", Shape: []int64{1, n}})
		if err := d.Enqueue(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{2, 1} {
		b, err := d.Next(t.Context(), 0, nil)
		if err != nil || b.Rows != want {
			t.Fatalf("Next = %+v, %v; want %d rows", b, err, want)
		}
		finish(b)
	}
}

func TestQueueIsExecutedAfterClose(t *testing.T) {
	d := NewDynamic(Policy{MaxBatchSize: 4, MaxQueueDelay: time.Hour})
	enqueue(t, d, 1)
	d.Close()
	if err := d.Enqueue(rows(1)); status.CodeOf(err) != status.Unavailable {
		t.Errorf("Enqueue after Close = %v, want Unavailable", err)
	}
	b, err := d.Next(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	finish(b)
	if _, err := d.Next(t.Context(), 0, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Next of an empty closed scheduler = %v, want ErrClosed", err)
	}
}

func TestGateIsCalledBeforeTheBatchIsFormed(t *testing.T) {
	d := NewDynamic(Policy{MaxBatchSize: 8})
	enqueue(t, d, 1)
	b, err := d.Next(t.Context(), 0, &Gate{Pass: func(context.Context) error {
		enqueue(t, d, 2) // comes while the gate is shut
		return nil
	}})
	if err != nil || b.Rows != 3 {
		t.Fatalf("Next = %+v, %v; want 3 rows", b, err)
	}
	finish(b)
}

func TestCancelledRequestsAreAnsweredAndSkipped(t *testing.T) {
	d := NewDynamic(Policy{MaxBatchSize: 8})
	all := enqueue(t, d, 1, 1)
	all[0].Cancel()
	b, err := d.Next(t.Context(), 0, nil)
	if err != nil || len(b.Requests) != 1 || b.Requests[0] != all[1] {
		t.Fatalf("Next = %+v, %v; want the second request alone", b, err)
	}
	finish(b)
	resp, err := all[0].Next(t.Context())
	if err != nil || status.CodeOf(resp.Err) != status.Cancelled {
		t.Errorf("cancelled request got %+v, %v; want Cancelled", resp, err)
	}
}

// TestInstancesComeAndGo adds and removes instances while requests arrive. An instance that leaves must wake another
// one, so that no request is forgotten.
func TestInstancesComeAndGo(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		synctest.Test(t, func(t *testing.T) {
			p := Policy{MaxBatchSize: 1 + rng.IntN(8), MaxQueueDelay: time.Duration(rng.IntN(4)) * time.Millisecond}
			d := NewDynamic(p)
			var wg sync.WaitGroup
			begin := func() context.CancelFunc {
				ctx, leave := context.WithCancel(context.Background())
				wg.Go(func() {
					for ctx.Err() == nil {
						b, err := d.Next(ctx, 0, nil)
						if err != nil {
							return
						}
						finish(b)
					}
				})
				return leave
			}
			stay := begin()
			defer stay()
			var sent []*infer.Request
			var leaves []context.CancelFunc
			for range 40 {
				switch rng.IntN(4) {
				case 0:
					leaves = append(leaves, begin())
				case 1:
					if len(leaves) > 0 {
						go leaves[0]() // beside the requests that come next
						leaves = leaves[1:]
					}
				default:
					sent = append(sent, enqueue(t, d, 1+rng.IntN(p.MaxBatchSize))...)
				}
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.IntN(1500)) * time.Microsecond)
				}
			}
			time.Sleep(p.MaxQueueDelay + time.Millisecond)
			synctest.Wait()
			for i, r := range sent {
				if !r.Answered() {
					t.Errorf("seed %d: request %d still waits with a free instance", seed, i)
				}
			}
			for _, leave := range leaves {
				leave()
			}
			d.Close()
			wg.Wait()
		})
	}
}

// TestMore checks that More returns the instance's share of the queue, and nothing if requests can share a batch.
func TestMore(t *testing.T) {
	for _, tt := range []struct {
		name      string
		policy    Policy
		instances int
		sizes     []int
		most      int
		want      []int // rows of the batches beside the first
	}{
		{"all that waits", Policy{}, 1, []int{1, 1, 1, 1}, 9, []int{1, 1, 1}},
		{"requests stay whole and in order", Policy{MaxBatchSize: 1}, 1, []int{1, 3, 2, 5}, 9, []int{3, 2, 5}},
		{"at most as many as asked for", Policy{}, 1, []int{1, 2, 3, 4}, 2, []int{2, 3}},
		{"none asked for", Policy{}, 1, []int{1, 1}, 0, nil},
		{"nothing else waits", Policy{}, 1, []int{1}, 9, nil},
		{"half for another instance", Policy{}, 2, []int{1, 1, 1, 1}, 9, []int{1}},
		{"a lone one is another's", Policy{}, 2, []int{1, 1}, 9, nil},
		{"what is joined in batches", Policy{MaxBatchSize: 2}, 1, []int{1, 1, 1, 1}, 9, nil},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			d := NewDynamic(tt.policy)
			for id := range tt.instances {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err := d.Next(ctx, InstanceID(id), nil); !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			}
			enqueue(t, d, tt.sizes...)
			first, err := d.Next(t.Context(), 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			list := d.More(0, []*infer.Batch{first}, tt.most)
			var got []int
			for _, b := range list[1:] {
				got = append(got, b.Rows)
			}
			if list[0] != first || !slices.Equal(got, tt.want) {
				t.Errorf("More(%v, most %d) = %v, want %v", tt.sizes, tt.most, got, tt.want)
			}
			for _, b := range list {
				finish(b)
			}
		})
	}
}

func TestMoreSkipsCancelledRequests(t *testing.T) {
	d := NewDynamic(Policy{})
	all := enqueue(t, d, 1, 1, 1, 1)
	first, err := d.Next(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	all[2].Cancel()
	list := d.More(0, []*infer.Batch{first}, 9)
	if len(list) != 3 || list[1].Requests[0] != all[1] || list[2].Requests[0] != all[3] {
		t.Errorf("%d batches, want those of the three that are not cancelled", len(list))
	}
	for _, b := range list {
		finish(b)
	}
}

// A request of a model may wait for other executions that call that model. So More appends it only behind requests of
// the same execution.
func TestMoreAppendsCallsOnlyBehindTheirOwnExecution(t *testing.T) {
	client, one, other := (*infer.Origin)(nil), &infer.Origin{Model: "a"}, &infer.Origin{Model: "a"}
	for _, tt := range []struct {
		name    string
		origins []*infer.Origin
		want    int // batches with the first
	}{
		{"of clients", []*infer.Origin{client, client, client}, 3},
		{"a call behind clients", []*infer.Origin{client, client, one, client}, 2},
		{"clients behind a call", []*infer.Origin{one, client, client}, 3},
		{"calls of one execution", []*infer.Origin{one, one, one}, 3},
		{"calls of two", []*infer.Origin{one, one, other}, 2},
		{"a client between calls of one", []*infer.Origin{one, client, one}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDynamic(Policy{})
			for _, o := range tt.origins {
				r := rows(1)
				r.Origin = o
				if err := d.Enqueue(r); err != nil {
					t.Fatal(err)
				}
			}
			first, err := d.Next(t.Context(), 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			list := d.More(0, []*infer.Batch{first}, 9)
			if len(list) != tt.want {
				t.Errorf("%d batches, want %d", len(list), tt.want)
			}
			for _, b := range list {
				finish(b)
			}
		})
	}
}

// bubble runs a subtest with a fake clock.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
