package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/sched"
	"nereid/engine/stats"
)

// serial is a model whose instances execute series; each execution takes a while.
type serial struct {
	fake
	takes time.Duration
	sizes []int // of the series, and 1 for each batch alone; of the instance's goroutine
}

type serialInstance struct{ *fakeInstance }

func (m *serial) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	inst, err := m.fake.NewInstance(ctx, p)
	if err != nil {
		return nil, err
	}
	m.execute = func(b *infer.Batch) error {
		m.sizes = append(m.sizes, 1)
		return m.run(b)
	}
	return seriesOf{serialInstance{inst.(*fakeInstance)}, m}, nil
}

func (m *serial) run(b *infer.Batch) error {
	began := infer.Now()
	time.Sleep(m.takes)
	if b.Requests[0].ID == "bad" {
		return fmt.Errorf("request %s", b.Requests[0].ID)
	}
	b.SetSpan(began, infer.Now())
	return answer(b)
}

type seriesOf struct {
	serialInstance
	m *serial
}

func (i seriesOf) ExecuteSeries(_ context.Context, batches []*infer.Batch, errs []error, _ func() bool) {
	i.m.sizes = append(i.m.sizes, len(batches))
	for n, b := range batches {
		if b.Requests[0].ID == "panic" {
			panic("oops")
		}
		errs[n] = i.m.run(b)
	}
}

// counting counts as package model does.
type counting struct{ v *stats.Version }

func (c counting) Finished(r *infer.Request, resp *infer.Response) { c.v.Finished(r, resp, 0) }

// While its executions are short, an instance gets all waiting requests together. Each counts as a separate execution
// and is answered whether or not the others fail.
func TestSeries(t *testing.T) {
	const us = time.Microsecond
	for _, tt := range []struct {
		name  string
		takes time.Duration
		ids   []string
		sizes []int // after the first
		fails int
	}{
		{"short executions go together", 40 * us, make([]string, 6), []int{6}, 0},
		{"for as long as they are short together", 190 * us, make([]string, 13), []int{10, 3}, 0},
		{"long ones go alone", 1300 * us, make([]string, 3), []int{1, 1, 1}, 0},
		{"a failure is one's own", 40 * us, []string{"", "bad", ""}, []int{3}, 1},
		{"a panic fails all requests without an answer", 40 * us, []string{"", "", "panic", ""}, []int{4}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &serial{takes: tt.takes}
				o := options(&m.fake, "a")
				o.Model, o.Batcher = m, sched.NewDynamic(sched.Policy{})
				s, err := Start(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				ask := func(id string) *infer.Request {
					r := infer.NewDetached()
					r.ID, r.BatchSize = id, 1
					r.Times.Arrived = infer.Now()
					r.Observe(counting{o.Stats})
					o.Stats.Admitted()
					if err := o.Batcher.Enqueue(r); err != nil {
						t.Fatal(err)
					}
					return r
				}
				for range 40 { // until it is known how long they take
					r := ask("")
					if _, err := r.Next(t.Context()); err != nil {
						t.Fatal(err)
					}
					r.Release()
				}
				synctest.Wait()
				known := len(m.sizes)
				busy := ask("")
				time.Sleep(us)
				var all []*infer.Request
				for _, id := range tt.ids {
					all = append(all, ask(id))
				}
				failed := 0
				for _, r := range append(all, busy) {
					resp, err := r.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if resp.Err != nil {
						failed++
					}
					r.Release()
				}
				o.Batcher.Close()
				s.Close(t.Context())
				if got := m.sizes[known+1:]; !slices.Equal(got, tt.sizes) || failed != tt.fails {
					t.Errorf("series of %v, %d failures; want %v, %d", got, failed, tt.sizes, tt.fails)
				}
				var seen stats.Snapshot
				o.Stats.Snapshot(&seen)
				if want := uint64(41 + len(tt.ids) - tt.fails); seen.Executions != want || len(seen.Batches) != 1 ||
					seen.Batches[0].Size != 1 || seen.Pending != 0 {
					t.Errorf("%d executions, by size %+v, %d wait; want %d of one request", seen.Executions,
						seen.Batches, seen.Pending, want)
				}
				if most := time.Duration(len(tt.ids)+1) * tt.takes; seen.Infer.Ns > uint64(40*tt.takes)+uint64(most) {
					t.Errorf("the executions are said to have taken %v", time.Duration(seen.Infer.Ns))
				}
			})
		})
	}
}

// A fragile instance is down after the request "crash". Executions take 40 µs, and that of "long" takes longer.
type fragile struct{ *mortalInstance }

type fragileModel struct{ *mortal }

func (m fragileModel) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	inst, err := m.mortal.NewInstance(ctx, p)
	if err != nil {
		return nil, err
	}
	return fragile{inst.(*mortalInstance)}, nil
}

func (i fragile) Execute(ctx context.Context, b *infer.Batch) error {
	time.Sleep(40 * time.Microsecond)
	switch b.Requests[0].ID {
	case "long":
		time.Sleep(time.Second)
	case "crash":
		i.m.set(i.name, true)
	}
	return i.mortalInstance.Execute(ctx, b)
}

func (i fragile) ExecuteSeries(ctx context.Context, batches []*infer.Batch, errs []error, leave func() bool) {
	for n, b := range batches {
		errs[n] = infer.ErrNotBegun
		if i.Down() == nil || !leave() {
			errs[n] = i.Execute(ctx, b)
		}
	}
}

// What a series has not begun when its instance goes down is executed by another one, even if that is busy now.
func TestTheRestOfASeriesGoesToAnotherInstance_D056(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMortal()
		o := options(m.fake, "a", "b")
		o.Model, o.Batcher = fragileModel{m}, sched.NewDynamic(sched.Policy{})
		s, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(id string) *infer.Request {
			r := infer.NewDetached()
			r.ID, r.BatchSize = id, 1
			r.Observe(counting{o.Stats})
			o.Stats.Admitted()
			if err := o.Batcher.Enqueue(r); err != nil {
				t.Fatal(err)
			}
			return r
		}
		answered := func(r *infer.Request) error {
			resp, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer r.Release()
			return resp.Err
		}
		for range 40 { // until it is known how long executions take on both
			r := []*infer.Request{ask(""), ask("")}
			if err := errors.Join(answered(r[0]), answered(r[1])); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		all := []*infer.Request{ask("long"), ask("")}
		time.Sleep(time.Microsecond)
		for _, id := range []string{"crash", "", "", ""} {
			all = append(all, ask(id))
		}
		for _, r := range all {
			id := r.ID
			if err := answered(r); (err != nil) != (id == "crash") {
				t.Errorf("request %q: %v", id, err)
			}
		}
		o.Batcher.Close()
		s.Close(t.Context())
		var counts stats.Snapshot
		o.Stats.Snapshot(&counts)
		if counts.Pending != 0 {
			t.Errorf("%d requests count as waiting", counts.Pending)
		}
	})
}
