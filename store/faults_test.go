package store

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("NEREID_STORE_TEST_CHILD"); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled is the child of TestKill: it writes all kinds of rows and prints the ID of each revision and the
// value of each setting that was acknowledged.
func writeUntilKilled(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s, err := Open(context.Background(), dir, Options{PruneEvery: time.Millisecond, KeepSeconds: time.Hour,
		KeepEvents: time.Hour})
	if err != nil {
		fail(err)
	}
	go func() {
		for i := int64(0); ; i++ {
			s.RecordSamples([]Sample{{Model: "m", Version: 1 + i%5, StartUS: nowUS() - i%2*2*hour, Requests: 1,
				Successes: 1, Latency: latency(time.Duration(i))}})
			s.RecordEvent(Event{Kind: "load", TimeUS: nowUS() - i%2*2*hour, Model: "m"})
			time.Sleep(50 * time.Microsecond) // a pace, not a wait for anything
		}
	}()
	for n := 0; ; n++ {
		r, err := s.AddRevision(context.Background(), Revision{Model: "m", Source: "test", After: text(body(n))})
		if err != nil {
			fail(err)
		}
		fmt.Printf("revision %d\n", r.ID)
		if err := s.SetSetting(context.Background(), "n", json.RawMessage(strconv.Itoa(n))); err != nil {
			fail(err)
		}
		fmt.Printf("setting %d\n", n)
	}
}

func body(n int) string { return strings.Repeat(fmt.Sprintf("# %d\n", n), 1+n%200) }

// TestKill kills a writing process again and again: the database opens, passes integrity_check, and has every
// revision and setting that was acknowledged; minutes and hours are the sums of what is in them.
// NEREID_SOAK=full does it 500 times, and bounds the time of a start.
func TestKill(t *testing.T) {
	rounds, limit := 8, 20*time.Second // longer: it waited for a lock that nobody holds
	if os.Getenv("NEREID_SOAK") == "full" {
		rounds, limit = 500, 2*time.Second
	} else if testing.Short() {
		rounds = 2
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(7, 8))
	for round := range rounds {
		lastRevision, lastSetting := killWriter(t, dir, 1+r.IntN(60))
		start := time.Now()
		s := open(t, dir, Options{})
		if took := time.Since(start); took > limit {
			t.Errorf("round %d: Open took %v, want at most %v", round, took, limit)
		}
		if len(s.Warnings()) != 0 {
			t.Fatalf("round %d: %q", round, s.Warnings())
		}
		var check string
		if err := s.w.QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
			t.Fatalf("round %d: integrity_check = %q, %v", round, check, err)
		}
		sumsHold(t, s)
		for id := max(1, lastRevision-maxRevisions/2); id <= lastRevision; id++ { // older ones may be removed
			if rev, err := s.Revision(t.Context(), id); err != nil || rev.After == nil || rev.Parent != id-1 {
				t.Fatalf("round %d: acknowledged revision %d of %d: %+v, %v", round, id, lastRevision, rev, err)
			}
		}
		got, err := s.Setting(t.Context(), "n")
		if n, _ := strconv.Atoi(string(got)); err != nil || n < lastSetting {
			t.Fatalf("round %d: setting n = %s, %v; want at least the acknowledged %d", round, got, err, lastSetting)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("round %d: Close: %v", round, err)
		}
	}
}

// sumsHold checks that minutes and hours have the sums of what is in them. Seconds of the last half hour are all there.
func sumsHold(t *testing.T, s *Store) {
	t.Helper()
	for i, level := range levels[1:] {
		since := int64(0)
		if level.width == minute {
			since = nowUS() - 30*minute
		}
		var rows, wrong int
		if err := s.w.QueryRow(fmt.Sprintf(`SELECT count(*), total(requests != (SELECT total(requests) FROM %[2]s AS f
			WHERE f.series_id = c.series_id AND f.start_us >= c.start_us AND f.start_us < c.start_us + %[3]d))
			FROM %[1]s AS c WHERE start_us >= %[4]d`, level.table, levels[i].table, level.width, since)).
			Scan(&rows, &wrong); err != nil || wrong != 0 {
			t.Fatalf("%d of %d rows of %s are not the sums of %s, %v", wrong, rows, level.table, levels[i].table, err)
		}
	}
}

// killWriter starts a child and kills it after it acknowledged n things; it answers the last of each kind.
func killWriter(t *testing.T, dir string, n int) (revision int64, setting int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "NEREID_STORE_TEST_CHILD="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); {
		kind, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			break // the last line, cut off
		}
		if kind == "revision" {
			revision = number
		} else {
			setting = int(number)
		}
		if seen++; seen == n { // what it prints until it is gone is acknowledged too
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the writing process ended by itself: %v", err)
	}
	if revision == 0 {
		t.Fatal("the writing process acknowledged nothing")
	}
	return revision, setting
}

func TestStoreRecoversFromDiskFaults(t *testing.T) {
	for _, tt := range []struct {
		name           string
		breakIt, mend  string
		wantInLastText string
	}{
		{"disk full", "PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000", "full"},
		{"read-only", "PRAGMA query_only = 1", "PRAGMA query_only = 0", "readonly"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, t.TempDir(), Options{MaxPending: 500})
			exec := func(q string) {
				t.Helper()
				if _, err := s.w.Exec(q); err != nil {
					t.Fatal(err)
				}
			}
			exec(tt.breakIt)
			start := nowUS() / hour * hour
			s.RecordEvent(Event{Kind: "x", Reason: strings.Repeat("needs new pages ", 10_000)})
			for i := range int64(2000) {
				s.RecordSamples([]Sample{{Model: "m", Version: 1, StartUS: start + i*second, Requests: 1,
					Latency: latency(time.Duration(i) * time.Millisecond)}})
				if i%100 == 0 {
					if err := s.Flush(t.Context()); err == nil {
						t.Fatal("Flush succeeds on a database that cannot be written")
					}
				}
			}
			_ = s.Flush(t.Context())
			_, err := s.AddRevision(t.Context(), Revision{Model: "m", After: text(strings.Repeat("x", 100_000))})
			if err == nil {
				t.Error("AddRevision acknowledges what it cannot store")
			}
			h := s.Health()
			if !h.Failing || h.WriteErrors == 0 || !strings.Contains(h.LastError, tt.wantInLastText) ||
				h.Pending != 501 || h.DroppedSamples != 1500 {
				t.Errorf("Health = %+v; want failing with %q, the last 500 samples waiting and 1500 dropped", h,
					tt.wantInLastText)
			}
			exec(tt.mend)
			if err := s.Flush(t.Context()); err != nil {
				t.Fatalf("Flush after mending: %v", err)
			}
			if h := s.Health(); h.Failing || h.Pending != 0 {
				t.Errorf("Health after mending = %+v", h)
			}
			got, err := s.Samples(t.Context(), SampleQuery{Model: "m", FromUS: start, ToUS: start + 2000*second})
			if err != nil || len(got.Points) != 500 || got.Points[0].StartUS != start+1500*second {
				t.Errorf("%d samples stored, %v; want the last 500", len(got.Points), err)
			}
		})
	}
}

func TestPruneByAge(t *testing.T) {
	s := open(t, t.TempDir(), Options{KeepSeconds: time.Hour, KeepMinutes: 24 * time.Hour, KeepHours: 100 * time.Hour,
		KeepEvents: 2 * time.Hour})
	now := nowUS()
	for _, ago := range []int64{0, 2, 30, 200} {
		s.RecordSamples([]Sample{{Model: "m", Version: 1, StartUS: now - ago*hour, Requests: 1}})
		s.RecordEvent(Event{Kind: "x", TimeUS: now - ago*hour})
	}
	settle(t, s)
	p := newPruner(s)
	p.wallUS -= 365 * 24 * hour // as if the clock had jumped
	for range 10 {
		p.step()
	}
	if got := counts(t, s); got != [4]int{4, 4, 4, 4} {
		t.Errorf("rows after a jump of the clock: %v, want all", got)
	}
	p = newPruner(s)
	for range 10 {
		p.step()
	}
	// The event of two hours ago is a little older than its limit by now.
	if got, want := counts(t, s), [4]int{1, 2, 3, 1}; got != want {
		t.Errorf("seconds, minutes, hours, events = %v, want %v", got, want)
	}
}

func counts(t *testing.T, s *Store) (n [4]int) {
	t.Helper()
	for i, table := range []string{levels[0].table, levels[1].table, levels[2].table, "event"} {
		if err := s.r.QueryRow("SELECT count(*) FROM " + table).Scan(&n[i]); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestPruneBySizeShrinksTheFile_E050_G027(t *testing.T) {
	const limit = 1 << 20
	s := open(t, t.TempDir(), Options{MaxBytes: limit})
	start := nowUS()/hour*hour - 10*hour
	var many []time.Duration
	for i := range 40 {
		many = append(many, time.Duration(1<<i))
	}
	for i := range int64(20_000) {
		s.RecordSamples([]Sample{{Model: "m", Version: 1 + i%3, StartUS: start + i*second, Requests: 1,
			Latency: latency(many...)}})
		if i%500 == 0 {
			settle(t, s)
		}
	}
	for range 3000 {
		s.RecordEvent(Event{Kind: "x", Reason: strings.Repeat("r", 300)})
		if len(s.events) > 500 {
			settle(t, s)
		}
	}
	rev, err := s.AddRevision(t.Context(), Revision{Model: "m", After: text("kept")})
	if err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	size := func() int64 {
		if _, err := s.w.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(filepath.Dir(s.path), FileName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	if before < 2*limit {
		t.Fatalf("the database has only %d bytes; the test needs more", before)
	}
	p := newPruner(s)
	steps := 0
	for p.step() < s.opt.PruneEvery && steps < 1000 {
		steps++
	}
	if after := size(); after > limit {
		t.Errorf("after %d steps the file has %d bytes, want at most %d", steps, after, limit)
	}
	last := start + 19_999*second
	got, err := s.Samples(t.Context(), SampleQuery{Model: "m", FromUS: last, ToUS: last + second})
	if err != nil || len(got.Points) != 1 {
		t.Errorf("the newest sample: %+v, %v; want it kept", got, err)
	}
	if _, err := s.Revision(t.Context(), rev.ID); err != nil {
		t.Errorf("the revision: %v", err)
	}
	if n := counts(t, s); n[3] < 1000 || n[1] == 0 {
		t.Errorf("rows left: %v; want at least 1000 events and some minutes", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, models := range []int{1, 20} {
		b.Run(fmt.Sprintf("models=%d", models), func(b *testing.B) {
			s, err := Open(b.Context(), b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			r := rand.New(rand.NewPCG(1, 1))
			var h Histogram
			for range 100_000 {
				h.Record(time.Duration(float64(time.Millisecond) * (0.5 + r.ExpFloat64())))
			}
			blob, _ := h.MarshalBinary()
			now := nowUS()
			b.ReportMetric(float64(len(blob)), "blob-bytes")
			for i := 0; b.Loop(); i++ {
				batch := make([]Sample, models)
				for m := range batch {
					batch[m] = Sample{Model: fmt.Sprint("model", m), Version: 1, StartUS: now + int64(i)*second,
						Requests: 100_000, Latency: blob}
				}
				s.RecordSamples(batch)
				if err := s.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
