package history

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nereid/store"
)

func TestMeterKeepsTheMeanAndTheMostOfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at a full minute
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		n := 0.0
		var kept [][]store.Gauge
		m := &Meter{Log: slog.New(slog.DiscardHandler), Read: func() []Reading {
			n++
			return []Reading{{Name: CPU, Value: n}, {Name: Memory, Model: "m", Value: 10}}
		}, Keep: func(_ context.Context, g []store.Gauge) error {
			slices.SortFunc(g, func(a, b store.Gauge) int { return strings.Compare(a.Name, b.Name) })
			kept = append(kept, g)
			return nil
		}}
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Minute + time.Millisecond) // of fake time: five readings of the first minute, one of the next
		synctest.Wait()
		if last := m.Last(); len(last) != 2 || last[0].Value != 6 {
			t.Errorf("the last readings: %+v", last)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		at := start.UnixMicro()
		want := [][]store.Gauge{
			{{Name: CPU, StartUS: at, Mean: 3, Most: 5}, {Name: Memory, Model: "m", StartUS: at, Mean: 10, Most: 10}},
			{{Name: CPU, StartUS: at + 60e6, Mean: 6, Most: 6},
				{Name: Memory, Model: "m", StartUS: at + 60e6, Mean: 10, Most: 10}},
		}
		if !reflect.DeepEqual(kept, want) {
			t.Errorf("kept %+v, want %+v", kept, want)
		}
	})
}
