package store

import (
	"reflect"
	"testing"
	"time"
)

func TestGaugesAreKeptByNameModelAndMinute(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{KeepMinutes: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := nowUS() / minute * minute
	cpu := func(at int64, mean float64) Gauge { return Gauge{Name: "cpu", StartUS: at, Mean: mean, Most: 1} }
	old, fresh := cpu(now-30*24*hour, 0.1), cpu(now, 0.75)
	of := Gauge{Name: "cpu", Model: "m", StartUS: now, Mean: 2, Most: 3}
	if err := s.AddGauges(t.Context(), []Gauge{old, cpu(now, 0.5), fresh, of}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Gauges(t.Context(), "cpu", "", 0, now+1); err != nil ||
		!reflect.DeepEqual(got, []Gauge{old, fresh}) {
		t.Errorf("Gauges = %+v, %v; want the old one and the newer of the two of a minute", got, err)
	}
	p := newPruner(s)
	if n, err := p.removeOld(t.Context(), time.Now()); n != 1 || err != nil {
		t.Errorf("removed %d, %v; want the old one", n, err)
	}
	if got, err := s.Gauges(t.Context(), "cpu", "", 0, now+1); err != nil || !reflect.DeepEqual(got, []Gauge{fresh}) {
		t.Errorf("after removing what is too old: %+v, %v", got, err)
	}
	if got, err := s.Gauges(t.Context(), "cpu", "m", now, now+1); err != nil || !reflect.DeepEqual(got, []Gauge{of}) {
		t.Errorf("of the model: %+v, %v", got, err)
	}
}
