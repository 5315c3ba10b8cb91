package store

import (
	"fmt"
	"os"
	"path/filepath"
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
	if err := s.writeGauges(t.Context()); err != nil {
		t.Fatal(err)
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

func TestGaugesAreWrittenWhenAPageReadsThemTheyAreOldOrTheStoreIsClosed(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begin := nowUS() / minute * minute
	written := 0
	for i, write := range []struct {
		how   string
		do    func() error
		wrote bool
	}{
		{"new ones", func() error { return nil }, false},
		{"a read", func() error {
			got, err := s.Gauges(t.Context(), "cpu", "", begin, begin+hour)
			if len(got) != 2 {
				t.Errorf("before they are written, %d are read, want 2", len(got))
			}
			return err
		}, false},
		{"a read of steps", func() error {
			_, _, err := s.GaugeSteps(t.Context(), "", 0, 1, time.Minute)
			return err
		}, true},
		{"new ones again", func() error { return nil }, false},
		{"old ones", func() error {
			s.gauges.since = s.gauges.since.Add(-gaugeDelay)
			return s.AddGauges(t.Context(), []Gauge{{Name: "gpu0", StartUS: begin}})
		}, true},
		{"before the end", func() error { return nil }, false},
	} {
		if err := s.AddGauges(t.Context(), []Gauge{{Name: "cpu", StartUS: begin + int64(i)*minute,
			Mean: float64(i)}}); err != nil {
			t.Fatal(err)
		}
		if err := write.do(); err != nil {
			t.Fatal(err)
		}
		var n int
		err := s.r.QueryRowContext(t.Context(), "SELECT count(*) FROM gauge WHERE name = 'cpu'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if write.wrote {
			written = i + 1
		}
		if n != written {
			t.Errorf("%s: %d are written, want %d", write.how, n, written)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got, err := again.Gauges(t.Context(), "cpu", "", 0, begin+hour); len(got) != 6 || err != nil {
		t.Errorf("after Close there are %d, %v; want 6", len(got), err)
	}
}

// Minutes that hardly differ are one row, and are read as the minutes they were.
func TestGaugesThatDoNotChangeAreOneRowAnHour(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begin := nowUS() / hour * hour
	var steady, rising []Gauge
	for m := range int64(90) {
		steady = append(steady, Gauge{Name: "memory", Model: "m", StartUS: begin + m*minute, Mean: 1000, Most: 2000})
		rising = append(rising, Gauge{Name: "cpu", Model: "m", StartUS: begin + m*minute, Mean: float64(m), Most: 90})
	}
	steady[70].Mean = 1009 // within a hundredth
	steady[80].Most = 2100
	for m := range steady {
		if err := s.AddGauges(t.Context(), []Gauge{steady[m], rising[m]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.writeGauges(t.Context()); err != nil {
		t.Fatal(err)
	}
	steady[70].Mean = 1000
	for _, want := range [][]Gauge{steady, rising, steady[30:75], rising[5:6], steady[81:]} {
		to := want[len(want)-1].StartUS + 1
		if got, err := s.Gauges(t.Context(), want[0].Name, "m", want[0].StartUS, to); err != nil ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("%d %s from %d: %+v, %v", len(want), want[0].Name, want[0].StartUS-begin, got, err)
		}
	}
	var rows int
	err = s.r.QueryRowContext(t.Context(), "SELECT count(*) FROM gauge WHERE name = 'memory'").Scan(&rows)
	if err != nil || rows != 4 { // an hour, up to the change, the change, the rest
		t.Errorf("memory has %d rows, %v; want 4", rows, err)
	}
	steps, step, err := s.GaugeSteps(t.Context(), "m", begin+minute, begin+2*hour, 30*time.Minute)
	if err != nil || step != 30*time.Minute || len(steps) != 6 {
		t.Fatalf("steps %+v of %v, %v; want three of each", steps, step, err)
	}
	for i, want := range []Gauge{{Mean: 14.5, Most: 90}, {Mean: 44.5, Most: 90}, {Mean: 74.5, Most: 90},
		{Mean: 1000, Most: 2000}, {Mean: 1000, Most: 2000}, {Mean: 1000, Most: 2100}} {
		if g := steps[i]; g.StartUS != begin+int64(i%3)*hour/2 || g.Mean != want.Mean || g.Most != want.Most {
			t.Errorf("step %d: %+v, want %+v", i, g, want)
		}
	}
}

// What an idle server with eight models writes in an hour goes to the log, and of many hours at once to the database.
// These readings change in each minute, which is the worst.
func TestAnHourOfGaugesIsOnFewPages(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begin := nowUS() / minute * minute
	hourOf := func(n int64) (bytes int64) {
		t.Helper()
		before := logSize(t, dir)
		for m := range int64(60) {
			var gauges []Gauge
			for model := range 8 {
				gauges = append(gauges, Gauge{Name: "memory", Model: fmt.Sprint("model_", model),
					StartUS: begin + n*hour + m*minute, Mean: float64(100 + m), Most: 2345})
			}
			if err := s.AddGauges(t.Context(), gauges); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.writeGauges(t.Context()); err != nil {
			t.Fatal(err)
		}
		return logSize(t, dir) - before
	}
	hourOf(0)
	if bytes := hourOf(1); bytes == 0 || bytes > 60_000 {
		t.Errorf("%d bytes are written to the log in an hour, want 1 to 60,000", bytes)
	}
}

func logSize(t *testing.T, dir string) int64 {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*-wal"))
	if err != nil || len(found) != 1 {
		t.Fatalf("logs of the database: %q, %v", found, err)
	}
	about, err := os.Stat(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return about.Size()
}
