package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/sched"
)

// meeting is a model whose instances are created by a function.
type meeting struct {
	*fake
	made func(ctx context.Context, name string) error
}

func (m *meeting) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	if err := m.made(ctx, p.Name); err != nil {
		return nil, err
	}
	return m.fake.NewInstance(ctx, p)
}

// Instances of a backend that allows it are created concurrently: here each of four waits for the others. Those of a
// backend that does not allow it are created one after the other, in order.
func TestInstancesAreCreated_C066(t *testing.T) {
	t.Run("C066 concurrently", func(t *testing.T) {
		var together sync.WaitGroup
		together.Add(4)
		o := options(&fake{execute: answer}, "a", "b", "c", "d")
		o.Parallel = 4
		o.Model = &meeting{&fake{execute: answer}, func(context.Context, string) error {
			together.Done()
			together.Wait()
			return nil
		}}
		s, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range s.runs {
			if r.place.Name != string(rune('a'+i)) || r.id != sched.InstanceID(i) {
				t.Errorf("place %d has instance %s with number %d", i, r.place.Name, r.id)
			}
		}
		o.Batcher.Close()
		s.Close(t.Context())
	})
	for _, parallel := range []int{0, 2} {
		t.Run(fmt.Sprintf("C066 at most %d at once", max(1, parallel)), func(t *testing.T) {
			var now, most atomic.Int32
			var mu sync.Mutex
			var order []string
			o := options(&fake{execute: answer}, "a", "b", "c", "d", "e", "f")
			o.Parallel = parallel
			o.Model = &meeting{&fake{execute: answer}, func(_ context.Context, name string) error {
				defer now.Add(-1)
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
				return nil
			}}
			s, err := Start(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if most.Load() > int32(max(1, parallel)) || parallel == 0 && !slices.IsSorted(order) {
				t.Errorf("%d at once, in the order %v", most.Load(), order)
			}
			o.Batcher.Close()
			s.Close(t.Context())
		})
	}
}

// If one instance fails, the creation of the others is cancelled, the created ones are closed, and the error is that of
// the failed one.
func TestFailedInstanceClosesOthers_C066(t *testing.T) {
	m := &fake{execute: answer}
	var before sync.WaitGroup
	before.Add(2)
	o := options(m, "a", "b", "c", "d", "e")
	o.Parallel = 3
	o.Model = &meeting{m, func(ctx context.Context, name string) error {
		switch name {
		case "a": // is made before b fails
			before.Done()
			return nil
		case "c": // is being made when b fails
			before.Done()
			<-ctx.Done()
			return ctx.Err()
		case "b":
			before.Wait()
			return errors.New("no room for b")
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	_, err := Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "no room for b") || strings.Contains(err.Error(), "canceled") {
		t.Errorf("Start = %v, want b's error alone", err)
	}
	if open := m.names(); len(open) > 0 {
		t.Errorf("instances %v are open", open)
	}
}
