package sched

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// volume is a strategy that limits the bytes of inputs in a batch. It counts them as a strategy in a library does.
type volume struct {
	t     *testing.T
	most  int
	bytes int
	open  bool // a batch is being formed
	asked int  // how many requests it was asked about
}

func bytesOf(r *infer.Request) (n int) {
	for _, in := range r.Inputs {
		n += len(in.Data)
	}
	return n
}

func bytesTensor(n int) tensor.Tensor {
	return tensor.Tensor{Name: "INPUT", DataType: tensor.Uint8, Shape: []int64{int64(n)}, Data: make([]byte, n)}
}

func (v *volume) Include(begin bool, requests []*infer.Request) int {
	if begin {
		v.bytes = 0
	} else if !v.open {
		v.t.Error("Include extends a batch that has not begun")
	}
	v.open = true
	for i, r := range requests {
		v.asked++
		if v.bytes += bytesOf(r); v.bytes > v.most {
			return i
		}
	}
	return len(requests)
}

func (v *volume) End() {
	if !v.open {
		v.t.Error("End without a batch that has begun")
	}
	v.open = false
}

func (v *volume) Close() error { return nil }

func TestAStrategyFormsBatches(t *testing.T) {
	const delay = 5 * time.Millisecond
	for _, tt := range []struct {
		name   string
		policy Policy
		most   int
		sizes  []int // a byte for each row
		want   []int
		after  time.Duration
		asked  int
	}{
		{"a batch that it refuses to grow goes at once", Policy{MaxBatchSize: 8, MaxQueueDelay: delay}, 4,
			[]int{2, 2, 1}, []int{4, 1}, delay, 4},
		{"a lone request that it refuses goes alone", Policy{MaxBatchSize: 8}, 4, []int{5, 5, 1, 1}, []int{5, 5, 2}, 0,
			4},
		{"the policy holds too", Policy{MaxBatchSize: 2}, 100, []int{1, 1, 1}, []int{2, 1}, 0, 3},
		{"preferred sizes hold too", Policy{MaxBatchSize: 8, Preferred: []int{2}}, 3, []int{1, 1, 1, 1}, []int{2, 2},
			0, 6},
		{"it is not asked without batches", Policy{MaxBatchSize: 1}, 0, []int{1, 1}, []int{1, 1}, 0, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			v := &volume{t: t, most: tt.most}
			tt.policy.Strategy = v
			d := NewDynamic(tt.policy)
			start := time.Now()
			for _, n := range tt.sizes {
				r := rows(n)
				r.Inputs = append(r.Inputs, bytesTensor(n))
				if err := d.Enqueue(r); err != nil {
					t.Fatal(err)
				}
			}
			var got []int
			for range tt.want {
				b, err := d.Next(t.Context(), 0, nil)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, b.Rows)
				finish(b)
			}
			if !slices.Equal(got, tt.want) || time.Since(start) != tt.after || v.asked != tt.asked || v.open {
				t.Errorf("batches of %v rows after %v, %d questions, open %v; want %v after %v, %d questions",
					got, time.Since(start), v.asked, v.open, tt.want, tt.after, tt.asked)
			}
		})
	}
}

// A request that leaves the queue is not counted by the strategy any more.
func TestAStrategyIsAskedAgainWhenTheQueueChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &volume{t: t, most: 4}
		d := NewDynamic(Policy{MaxBatchSize: 8, MaxQueueDelay: time.Second, Strategy: v})
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
		var all []*infer.Request
		for _, n := range []int{3, 1, 3} {
			r := rows(n)
			r.Inputs = append(r.Inputs, bytesTensor(n))
			all = append(all, r)
		}
		for _, r := range all[:2] {
			if err := d.Enqueue(r); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		all[0].Cancel()
		if err := d.Enqueue(all[2]); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != 4 {
			t.Errorf("the batch has %d rows; the second and third request have 4", n)
		}
	})
}
