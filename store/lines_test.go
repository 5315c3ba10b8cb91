package store

import (
	"path/filepath"
	"testing"
)

func TestCountLines(t *testing.T) {
	for _, tt := range []struct {
		name           string
		before, after  string
		added, removed int
	}{
		{"nothing", "a\nb\n", "a\nb\n", 0, 0},
		{"new", "", "a\nb\n", 2, 0},
		{"gone", "a\n", "", 0, 1},
		{"one line changed", "a\nb\nc\n", "a\nx\nc\n", 1, 1},
		{"moved", "a\nb\nc\n", "c\na\nb\n", 1, 1},
		{"in between", "a\nb\n", "a\nx\ny\nb\n", 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if added, removed := countLines(&tt.before, &tt.after); added != tt.added || removed != tt.removed {
				t.Errorf("countLines = %d, %d; want %d, %d", added, removed, tt.added, tt.removed)
			}
		})
	}
}

// Of the revisions whose outcome is not known, those count that are the latest of their model's file.
func TestUnknownOutcomes(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for _, r := range []Revision{
		{Model: "done", Source: SourceConsole},
		{Model: "done", Source: SourceImport, Outcome: "loaded"},
		{Model: "open", Source: SourceConsole, Outcome: "loaded"},
		{Model: "open", Source: SourceConsole, After: text("x")},
		{Model: "open", Source: SourceVersions},
	} {
		if _, err := s.AddRevision(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.UnknownOutcomes(t.Context())
	if err != nil || len(got) != 1 || got[0].Model != "open" || got[0].Source != SourceConsole || *got[0].After != "x" {
		t.Errorf("UnknownOutcomes = %+v, %v", got, err)
	}
}

// The revisions of one model are bounded: by number, and by the bytes of their texts except for the newest.
func TestRevisionsAreBounded_B25(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	ids := func() (out []int64) {
		for before := int64(0); ; before = out[len(out)-1] {
			page, err := s.Revisions(t.Context(), "m", before, 999)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				return out
			}
			for _, r := range page {
				out = append(out, r.ID)
			}
		}
	}
	add := func(model string, text *string) Revision {
		r, err := s.AddRevision(t.Context(), Revision{Model: model, Source: SourceConsole, After: text})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := add("other", text("x"))
	for range maxRevisions + 3 {
		add("m", text("x"))
	}
	if got := ids(); len(got) != maxRevisions || got[0]-got[len(got)-1] != maxRevisions-1 {
		t.Errorf("%d revisions are kept, want the newest %d", len(got), maxRevisions)
	}
	if _, err := s.w.Exec(`UPDATE config_revision SET text_bytes = ? WHERE model = 'm'`,
		maxRevisionBytes/10); err != nil {
		t.Fatal(err)
	}
	add("m", text("x"))
	if got := ids(); len(got) != keptRevisions {
		t.Errorf("%d large revisions are kept, want %d", len(got), keptRevisions)
	}
	if _, err := s.Revision(t.Context(), first.ID); err != nil {
		t.Errorf("the revision of another model: %v", err)
	}
}

// An older database gets the numbers of lines of the revisions that it has.
func TestMigrationCountsLines(t *testing.T) {
	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	db := openDB(dsn(filepath.Join(t.TempDir(), FileName), writerParams), 1)
	defer db.Close()
	if err := migrate(t.Context(), db, steps[:3]); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`INSERT INTO config_revision (model, time_us, source, author, text_before, text_after, outcome,
		reason) VALUES ('m', 1, 'console', '', 'a' || char(10) || 'b', 'a', '', ''),
		('m', 2, 'console', '', NULL, 'ü', '', '')`,
	); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), db, steps); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := db.QueryRow(`SELECT group_concat(added || ' ' || removed || ' ' || text_bytes, ', ')
		FROM config_revision`).Scan(&got); err != nil || got != "0 1 4, 1 0 2" {
		t.Errorf("added, removed, bytes = %s, %v", got, err)
	}
}
