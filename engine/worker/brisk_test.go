package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nereid/engine/infer"
)

// said notes for how long the cores are to be kept awake.
type said []time.Duration

func (s *said) Until(d time.Duration) { *s = append(*s, d) }

func TestBrisk(t *testing.T) {
	const us = time.Microsecond
	type step struct {
		times     int
		gap, took time.Duration
		requests  int
	}
	closely := step{100, 100 * us, 100 * us, 1}
	for _, tt := range []struct {
		name  string
		steps []step
		want  int // executions of the last step for which the cores are kept awake
	}{
		{"lone ones that follow each other closely", []step{closely}, 100 - briskFirst},
		{"one of 25 comes late", []step{closely, {1, 600 * us, 100 * us, 1}, {24, 100 * us, 100 * us, 1}, {1, 600 * us, 100 * us, 1}}, 1},
		{"one of 25 takes long", []step{closely, {1, 100 * us, 900 * us, 1}, {24, 100 * us, 100 * us, 1}}, 24},
		{"every other comes late", slices.Concat([]step{closely},
			slices.Repeat([]step{{1, 600 * us, 100 * us, 1}, {1, 100 * us, 100 * us, 1}}, 5),
			[]step{{1, 600 * us, 100 * us, 1}, {100, 600 * us, 100 * us, 1}}), 0},
		{"they go on", []step{closely, {10, 200 * us, 300 * us, 1}}, 10},
		{"from a core that sleeps", []step{{100, 290 * us, 100 * us, 1}}, 15}, // three in each row of 19, until they follow each other more closely
		{"by a clock", []step{{100, 400 * us, 100 * us, 1}}, 0},
		{"a pause", []step{closely, {1, time.Second, 100 * us, 1}}, 0},
		{"after a pause", []step{closely, {1, time.Second, 100 * us, 1}, {briskFirst - 1, 100 * us, 100 * us, 1}}, 0},
		{"long ones", []step{{100, 100 * us, 500 * us, 1}}, 0},
		{"several at once", []step{closely, {100, 50 * us, 100 * us, 4}}, 0},
		{"a lone one between others", []step{closely, {1, 50 * us, 100 * us, 4}, {1, 50 * us, 100 * us, 1}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s said
			b := brisk{keeper: &s}
			now, got := infer.Stamp(time.Hour), 0
			for _, st := range tt.steps {
				got = 0
				for range st.times {
					s = s[:0]
					now += infer.Stamp(st.gap)
					b.begins(now, st.requests)
					now += infer.Stamp(st.took)
					b.ends(now, st.requests)
					if len(s) > 0 {
						got++
						if want := fmt.Sprint([]time.Duration{briskMost, briskStay}); fmt.Sprint([]time.Duration(s)) != want {
							t.Fatalf("kept awake for %v, want %v", s, want)
						}
					}
				}
			}
			if got != tt.want {
				t.Errorf("%d executions of the last step had the cores kept awake, want %d", got, tt.want)
			}
		})
	}
}

func TestBriskWithoutKeeper(t *testing.T) {
	l := NewLauncher(nil)
	defer l.Close()
	l.KeepAwake(nil)
	b := l.watch()
	for range 2 * briskFirst {
		b.begin(1)
		b.end(1)
	}
	if b.row != 0 {
		t.Errorf("a row of %d is counted for nobody", b.row)
	}
}
