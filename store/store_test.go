package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, o)
	if err != nil {
		t.Fatalf("Open(%q): %v", dir, err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func settle(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatalf("Flush: %v", err)
	}
}

func latency(ds ...time.Duration) []byte {
	var h Histogram
	for _, d := range ds {
		h.Record(d)
	}
	b, _ := h.MarshalBinary()
	return b
}

func text(s string) *string { return &s }

func TestRecordsAreReadBack_E050(t *testing.T) {
	for _, tt := range []struct {
		name string
		open func(t *testing.T) *Store
	}{
		{"on disk", func(t *testing.T) *Store {
			return open(t, filepath.Join(t.TempDir(), "a folder? with #signs% é"), Options{})
		}},
		{"in memory", func(t *testing.T) *Store {
			s, err := OpenMemory(t.Context(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { testRecords(t, tt.open(t)) })
	}
}

func testRecords(t *testing.T, s *Store) {
	ctx := t.Context()
	now := nowUS()
	start := now - now%second - 10*second
	want := Sample{Model: "m", Version: 3, StartUS: start, Requests: 10, Successes: 6, Failures: Failures{1, 1, 1, 1},
		Inferences: 12, Executions: 5, BatchRows: 13, QueueNS: 1, ComputeInputNS: 2, ComputeInferNS: 3,
		ComputeOutputNS: 4,
		RequestNS:       20, Latency: latency(time.Millisecond)}
	bare := Sample{Model: "m", Version: 4, StartUS: start, Requests: 1, Successes: 1}
	s.RecordSamples([]Sample{want, bare, {Model: "", StartUS: start}, {Model: "m", Requests: -1},
		{Model: "m", Latency: []byte{9}}})
	s.RecordEvent(Event{TimeUS: 5, Kind: "load", Model: "m", Version: 3, Detail: json.RawMessage(`{"a":1}`)})
	s.RecordEvent(Event{Kind: "load_failed", Model: "bad", Reason: "no such <file>"})
	rev, err := s.AddRevision(ctx, Revision{Model: "m", Source: "editor", After: text("name: \"m\"\n")})
	if err != nil {
		t.Fatalf("AddRevision: %v", err)
	}
	rev2, err := s.AddRevision(ctx, Revision{Model: "m", Source: "restore", Restores: rev.ID, Before: rev.After,
		TimeUS: 7})
	if err != nil || rev2.Parent != rev.ID || rev.Parent != 0 {
		t.Fatalf("AddRevision = %+v, %v; want parent %d", rev2, err, rev.ID)
	}
	if err := s.SetRevisionOutcome(ctx, rev2.ID, "failed", "no such file"); err != nil {
		t.Fatalf("SetRevisionOutcome: %v", err)
	}
	rev2.Outcome, rev2.Reason = "failed", "no such file"
	settle(t, s)

	got, err := s.Samples(ctx, SampleQuery{Model: "m", Version: 3, FromUS: start, ToUS: start + second})
	if err != nil || len(got.Points) != 1 || !reflect.DeepEqual(got.Points[0], want) || got.Step != time.Second {
		t.Errorf("Samples = %+v, %v; want %+v", got, err, want)
	}
	both, err := s.Samples(ctx, SampleQuery{Model: "m", FromUS: start, ToUS: start + second})
	if err != nil || len(both.Points) != 1 || both.Points[0].Requests != 11 || both.Points[0].Version != 0 {
		t.Errorf("Samples of all versions = %+v, %v; want 11 requests", both, err)
	}
	if h := s.Health(); h.DroppedSamples != 3 {
		t.Errorf("DroppedSamples = %d, want the 3 that are not valid", h.DroppedSamples)
	}
	events, err := s.Events(ctx, EventQuery{})
	if err != nil || len(events) != 2 || events[0].Model != "bad" || string(events[1].Detail) != `{"a":1}` ||
		events[0].TimeUS < now {
		t.Errorf("Events = %+v, %v; want the latest first", events, err)
	}
	if none, err := s.FileRevision(ctx, "other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("FileRevision of a model without any = %+v, %v; want ErrNotFound", none, err)
	}
	for _, source := range []string{SourceVersions, SourceOverride} {
		if _, err := s.AddRevision(ctx, Revision{Model: "n", Source: source, After: text("1\n")}); err != nil {
			t.Fatal(err)
		}
	}
	if none, err := s.FileRevision(ctx, "n"); !errors.Is(err, ErrNotFound) {
		t.Errorf("FileRevision of a model whose file was not changed = %+v, %v; want ErrNotFound", none, err)
	}
	if head, err := s.FileRevision(ctx, "m"); err != nil || head.ID != rev2.ID {
		t.Errorf("FileRevision = %+v, %v; want %d", head, err, rev2.ID)
	}
	for _, want := range []Revision{rev, rev2} {
		if got, err := s.Revision(ctx, want.ID); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Revision = %+v, %v; want %+v", got, err, want)
		}
	}
	revs, err := s.Revisions(ctx, "m", 0, 0)
	rev.Before, rev.After, rev2.Before, rev2.After = nil, nil, nil, nil // a list has no texts
	if err != nil || !reflect.DeepEqual(revs, []Revision{rev2, rev}) {
		t.Errorf("Revisions = %+v, %v; want %+v", revs, err, []Revision{rev2, rev})
	}
}

func TestSpans(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	s.RecordSpans([]Span{{"m", 1, 100, 200}, {"m", 2, 150, 160}, {"n", 1, 100, 900}})
	s.RecordSpans([]Span{{"m", 1, 100, 300}})
	s.RecordSpans([]Span{{"m", 1, 100, 250}, {"m", 1, 500, 600}})
	settle(t, s)
	for _, tt := range []struct {
		name     string
		model    string
		version  int64
		from, to int64
		want     []Span
	}{
		{"a longer one replaces a shorter", "m", 1, 0, 400, []Span{{"m", 1, 100, 300}}},
		{"all versions", "m", 0, 0, 1000, []Span{{"m", 1, 100, 300}, {"m", 1, 500, 600}, {"m", 2, 150, 160}}},
		{"cut out", "m", 0, 300, 501, []Span{{"m", 1, 100, 300}, {"m", 1, 500, 600}}},
		{"all models", "", 0, 700, 800, []Span{{"n", 1, 100, 900}}},
		{"none", "m", 0, 700, 800, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.Spans(t.Context(), tt.model, tt.version, tt.from, tt.to)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Spans = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestEventQuery(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for i, k := range []string{"load", "unload", "load", "import"} {
		s.RecordEvent(Event{TimeUS: int64(100 + i), Kind: k, Model: string(rune('a' + i%2))})
	}
	settle(t, s)
	for _, tt := range []struct {
		name string
		q    EventQuery
		want []int64 // times
	}{
		{"all", EventQuery{}, []int64{103, 102, 101, 100}},
		{"model", EventQuery{Model: "a"}, []int64{102, 100}},
		{"kinds", EventQuery{Kinds: []string{"load", "import"}}, []int64{103, 102, 100}},
		{"time", EventQuery{FromUS: 101, ToUS: 103}, []int64{102, 101}},
		{"page", EventQuery{BeforeID: 3, Limit: 1}, []int64{101}},
		{"none", EventQuery{Model: "x' OR '1'='1"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, err := s.Events(t.Context(), tt.q)
			var got []int64
			for _, e := range events {
				got = append(got, e.TimeUS)
			}
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Events(%+v) = times %v, %v; want %v", tt.q, got, err, tt.want)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	ctx := t.Context()
	if _, err := s.Setting(ctx, "ui.theme"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Setting of nothing = %v, want ErrNotFound", err)
	}
	if err := s.SetSetting(ctx, "ui.theme", json.RawMessage(`{`)); err == nil {
		t.Error("SetSetting of what is not JSON succeeds")
	}
	for _, v := range []string{`"light"`, `"dark"`} {
		if err := s.SetSetting(ctx, "ui.theme", json.RawMessage(v)); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if err := s.SetSetting(ctx, "late", json.RawMessage(`1`)); !errors.Is(err, ErrClosed) {
		t.Errorf("SetSetting after Close = %v, want ErrClosed", err)
	}
	again := open(t, dir, Options{})
	all, err := again.Settings(ctx)
	if err != nil || len(all) != 1 || string(all["ui.theme"]) != `"dark"` {
		t.Errorf("Settings after reopening = %q, %v", all, err)
	}
}

func TestCancelledCallStoresNothing(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.AddRevision(ctx, Revision{Model: "m"}); !errors.Is(err, context.Canceled) {
		t.Errorf("AddRevision = %v, want context.Canceled", err)
	}
	if revs, err := s.Revisions(t.Context(), "m", 0, 0); err != nil || len(revs) != 0 {
		t.Errorf("Revisions = %v, %v; want none", revs, err)
	}
	if _, err := s.Revision(t.Context(), 99); !errors.Is(err, ErrNotFound) {
		t.Errorf("Revision(99) = %v, want ErrNotFound", err)
	}
	if err := s.SetRevisionOutcome(t.Context(), 99, "x", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("SetRevisionOutcome(99) = %v, want ErrNotFound", err)
	}
}

// TestRollUpsAreExact records random samples, out of order and repeated, and compares every resolution with sums made
// in Go.
func TestRollUpsAreExact(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	r := rand.New(rand.NewPCG(5, 6))
	base := nowUS()/hour*hour - 3*hour
	want := map[int64]map[int64]*accumulator{}
	for range 60 {
		var batch []Sample
		for range 20 {
			d := randomLatency(r)
			p := Sample{Model: "m", Version: 1 + r.Int64N(2), StartUS: base + r.Int64N(2*hour), Requests: 1,
				Successes:  r.Int64N(2),
				Inferences: r.Int64N(9), Executions: 1, BatchRows: r.Int64N(9), QueueNS: r.Int64N(1e9),
				RequestNS: int64(d), Latency: latency(d)}
			batch = append(batch, p)
			for _, level := range levels {
				at := p.StartUS / level.width * level.width
				if want[level.width] == nil {
					want[level.width] = map[int64]*accumulator{}
				}
				if want[level.width][at] == nil {
					want[level.width][at] = &accumulator{sum: Sample{Model: "m", StartUS: at}}
				}
				want[level.width][at].add(&p)
			}
		}
		if !s.RecordSamples(batch) {
			t.Fatal("RecordSamples drops")
		}
	}
	settle(t, s)
	for _, level := range levels {
		seen := 0
		for from := base; from < base+2*hour; from += 4000 * level.width {
			to := min(from+4000*level.width, base+2*hour)
			got, err := s.Samples(t.Context(), SampleQuery{Model: "m", FromUS: from, ToUS: to,
				Step: time.Duration(level.width) * time.Microsecond})
			if err != nil || got.Step.Microseconds() != level.width {
				t.Fatalf("Samples by %v: step %v, %v", level.table, got.Step, err)
			}
			for _, p := range got.Points {
				seen++
				if w := want[level.width][p.StartUS]; w == nil || !reflect.DeepEqual(p, w.done()) {
					t.Fatalf("%s at %d = %+v, want %+v", level.table, p.StartUS, p, w)
				}
			}
		}
		if seen != len(want[level.width]) {
			t.Errorf("%s has %d samples, want %d", level.table, seen, len(want[level.width]))
		}
	}
}

func TestChooseStep(t *testing.T) {
	s := &Store{opt: Options{}.withDefaults()}
	now := nowUS()
	const day = 24 * hour
	for _, tt := range []struct {
		name      string
		span, ago int64 // microseconds
		q         SampleQuery
		want      time.Duration
	}{
		{"five minutes", 5 * minute, 5 * minute, SampleQuery{MaxPoints: 600}, time.Second},
		{"an hour", hour, hour, SampleQuery{MaxPoints: 600}, 10 * time.Second},
		{"a day", day, day - minute, SampleQuery{MaxPoints: 600}, 5 * time.Minute},
		{"five minutes of last week", 5 * minute, 7 * day, SampleQuery{MaxPoints: 600}, time.Minute},
		{"five minutes of last year", 5 * minute, 365 * day, SampleQuery{MaxPoints: 600}, time.Hour},
		{"a wanted step is rounded up to what is kept", hour, hour, SampleQuery{Step: 90 * time.Second},
			2 * time.Minute},
		{"a wanted step that gives too many points", hour, hour, SampleQuery{Step: time.Second, MaxPoints: 60},
			time.Minute},
		{"ten years", 3650 * day, 3650 * day, SampleQuery{MaxPoints: 600}, 168 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.q.FromUS = now - tt.ago
			tt.q.ToUS = tt.q.FromUS + tt.span
			if got := time.Duration(s.chooseStep(tt.q)) * time.Microsecond; got != tt.want {
				t.Errorf("step = %v, want %v", got, tt.want)
			}
		})
	}
	for _, q := range []SampleQuery{{}, {Model: "m"}, {Model: "m", FromUS: 5, ToUS: 5},
		{Model: "m", FromUS: -1, ToUS: 5}} {
		if _, err := s.Samples(t.Context(), q); err == nil {
			t.Errorf("Samples(%+v) succeeds", q)
		}
	}
}

func TestQueueDropsAndCounts(t *testing.T) {
	s := &Store{opt: Options{QueueLength: 1}.withDefaults(), samples: make(chan []Sample, 1),
		events: make(chan Event, 1), stop: make(chan struct{})}
	ok1 := s.RecordSamples([]Sample{{Model: "m"}})
	ok2 := s.RecordSamples([]Sample{{Model: "m"}, {Model: "n"}}) // nobody reads: full, and it must not block
	_, ev1 := s.RecordEvent(Event{Kind: "load"})
	_, ev2 := s.RecordEvent(Event{Kind: "load"})
	if h := s.Health(); !ok1 || ok2 || !ev1 || ev2 || h.DroppedSamples != 2 || h.DroppedEvents != 1 {
		t.Errorf("answers %v %v %v %v, health %+v; want the second of each dropped and counted", ok1, ok2, ev1, ev2, h)
	}
}

func TestOpenSetsAside(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		word string
	}{
		{"damaged header", func(t *testing.T, path string) {
			makeDatabase(t, path, "")
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte("not a database at all, sorry"), 0); err != nil {
				t.Fatal(err)
			}
		}, "damaged"},
		{"another kind of file", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("hello\n", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "damaged"},
		{"another program's database", func(t *testing.T, path string) {
			makeDatabase(t, path, "CREATE TABLE theirs (a); PRAGMA application_id = 77")
		}, "foreign"},
		{"damage inside, found while running", func(t *testing.T, path string) {
			makeDatabase(t, path, "")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := 3 * 4096; i < len(b); i++ {
				b[i] = 0xee
			}
			if err := errors.Join(os.WriteFile(path, b, 0o600), os.WriteFile(path+suspectSuffix, nil,
				0o600)); err != nil {
				t.Fatal(err)
			}
		}, "damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, FileName)
			tt.make(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, dir, Options{})
			if len(s.Warnings()) != 1 || !strings.Contains(s.Warnings()[0], "set aside") {
				t.Errorf("Warnings = %q, want one that says set aside", s.Warnings())
			}
			if err := s.SetSetting(t.Context(), "k", json.RawMessage("1")); err != nil {
				t.Errorf("the new database does not work: %v", err)
			}
			names, _ := filepath.Glob(path + "." + tt.word + "-*")
			if len(names) != 1 {
				t.Fatalf("files set aside as %s: %v, want one", tt.word, names)
			}
			if after, err := os.ReadFile(names[0]); err != nil || !reflect.DeepEqual(after, before) {
				t.Errorf("what was set aside is not what was there: %v", err)
			}
			s.Close()
			if again := open(t, dir, Options{}); len(again.Warnings()) != 0 {
				t.Errorf("the next Open warns again: %q", again.Warnings())
			}
		})
	}
}

// makeDatabase makes our database with some rows, or, with a script, an empty one and runs the script in it.
func makeDatabase(t *testing.T, path, script string) {
	t.Helper()
	if script == "" {
		s := open(t, filepath.Dir(path), Options{})
		for range 200 {
			s.RecordEvent(Event{Kind: strings.Repeat("x", 200)})
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	db := openDB(dsn(path, ""), 1)
	defer db.Close()
	if _, err := db.Exec(script); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string)
		want string
	}{
		{"a newer schema", func(t *testing.T, dir string) {
			path := filepath.Join(dir, FileName)
			makeDatabase(t, path, "")
			makeDatabase(t, path, "PRAGMA user_version = 999")
		}, "a newer version wrote it"},
		{"a folder in the place of the file", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, FileName), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.make(t, dir)
			s, err := Open(t.Context(), dir, Options{})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want an error with %q", err, tt.want)
			}
			if files, _ := os.ReadDir(dir); len(files) != 1 {
				t.Errorf("Open leaves %v, want the file as it was", files)
			}
		})
	}
	var newer *NewerSchemaError
	if err := openError("p", &NewerSchemaError{Found: 2, Known: 1}); !errors.As(err, &newer) || newer.Path != "p" {
		t.Errorf("openError loses the NewerSchemaError: %v", err)
	}
}

func TestMigrate_G027(t *testing.T) {
	ctx := t.Context()
	db := openDB("file::memory:?_txlock=immediate", 1)
	defer db.Close()
	version := func() (v int) {
		if err := db.QueryRow("PRAGMA user_version").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	one := "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (1)"
	if err := migrate(ctx, db, []string{one}); err != nil || version() != 1 {
		t.Fatalf("migrate to 1: %v, version %d", err, version())
	}
	broken := "ALTER TABLE a ADD COLUMN y; CREATE TABLE nonsense ("
	if err := migrate(ctx, db, []string{one, broken}); err == nil || !strings.Contains(err.Error(), "migration 2") ||
		version() != 1 {
		t.Fatalf("a broken migration: %v, version %d; want an error that names 2, and version 1", err, version())
	}
	if _, err := db.Exec("SELECT y FROM a"); err == nil {
		t.Error("half of the broken migration stayed")
	}
	if err := migrate(ctx, db, []string{one, "ALTER TABLE a ADD COLUMN y INTEGER",
		"UPDATE a SET y = x + 1"}); err != nil || version() != 3 {
		t.Fatalf("migrate to 3: %v, version %d", err, version())
	}
	var y int
	if err := db.QueryRow("SELECT y FROM a").Scan(&y); err != nil || y != 2 {
		t.Errorf("y = %d, %v; want the row of schema 1 with 2", y, err)
	}
	var newer *NewerSchemaError
	if err := migrate(ctx, db, []string{one}); !errors.As(err, &newer) {
		t.Errorf("migrate of a newer schema = %v, want a NewerSchemaError", err)
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir, Options{})
	if err := s.SetSetting(t.Context(), "k", json.RawMessage("1")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", FileName, FileName + "-wal", FileName + "-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q has mode %v, %v; want it closed to others", name, info.Mode(), err)
		}
	}
}

func TestPragmas(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for _, tt := range []struct {
		name string
		db   *sql.DB
		want string
	}{
		{"journal_mode", s.w, "wal"}, {"synchronous", s.w, "1"}, {"auto_vacuum", s.w, "2"}, {"busy_timeout", s.w,
			"5000"},
		{"application_id", s.w, "1314015556"}, {"journal_mode", s.r, "wal"}, {"query_only", s.r, "1"},
	} {
		var got string
		if err := tt.db.QueryRow("PRAGMA " + tt.name).Scan(&got); err != nil || got != tt.want {
			t.Errorf("PRAGMA %s = %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := s.AddRevision(t.Context(), Revision{Model: "m"}); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := s.w.QueryRow("PRAGMA synchronous").Scan(&got); err != nil || got != "1" {
		t.Errorf("PRAGMA synchronous after a revision = %q, %v; want NORMAL again", got, err)
	}
}

func TestLog(t *testing.T) {
	var b strings.Builder
	s, err := OpenMemory(t.Context(), Options{Log: slog.New(slog.NewTextHandler(&b, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if !strings.Contains(b.String(), "in memory only") {
		t.Errorf("the log %q does not say that nothing is kept", b.String())
	}
}

func TestANewDatabaseReplacesWhatAnInterruptedStartLeft(t *testing.T) {
	dir := t.TempDir()
	for _, suffix := range []string{"-new", "-new-wal"} {
		if err := os.WriteFile(filepath.Join(dir, FileName+suffix), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
	info, err := os.Stat(filepath.Join(dir, FileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the database: %v, %v; want that only its owner can read it", info.Mode(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*-new*"))
	if err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
