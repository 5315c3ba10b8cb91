package store

import (
	"context"
	"database/sql"
	"errors"
)

// Revision is one change of a model's config.pbtxt. It has the whole text before and after, so that every state can be
// restored, also if another program changed the file.
type Revision struct {
	ID     int64 // given by the store, rising
	Parent int64 // the previous revision of the model, 0 for the first; given by the store
	Model  string
	TimeUS int64 // 0: now
	// Source is what made the change, or for SourceVersions and SourceOverride what was changed instead of the file.
	Source string
	// Restores is the revision whose text this one restores, 0 for none.
	Restores int64
	Before   *string
	After    *string // nil: no config.pbtxt, as in a folder that has only a model file
	// Outcome is what became of it, "" if not known, and Reason why it failed; see SetRevisionOutcome.
	Outcome, Reason string
	Added, Removed  int // lines, as a diff shows them; given by the store
}

// The sources of revisions.
const (
	SourceConsole = "console" // the editor of the console
	SourceImport  = "import"
	SourceDisk    = "disk"   // a change from outside
	SourceDelete  = "delete" // the model's folder was moved to the trash
	SourceRestore = "restore"
	SourceTune    = "tune" // a tuning in the console, or nereid tune --apply

	// SourceVersions: a version was loaded or unloaded alone. The texts are the versions in service, one a line.
	SourceVersions = "versions"
	// SourceOverride: a load request had a configuration. The texts are configurations.
	SourceOverride = "override"
)

// FileRevision returns the latest revision of a model's configuration file, or ErrNotFound.
func (s *Store) FileRevision(ctx context.Context, model string) (Revision, error) {
	r, err := one(ctx, s.r, (*Revision).withTexts, `SELECT `+revisionColumns+`, text_before, text_after
		FROM config_revision WHERE model = ? AND source NOT IN (?, ?) ORDER BY id DESC LIMIT 1`,
		model, SourceVersions, SourceOverride)
	return r, about(err, "configuration revisions of model %q", model)
}

// UnknownOutcomes returns the latest revision of each model's configuration file whose outcome is not known. Those are
// the changes during which an earlier process ended.
func (s *Store) UnknownOutcomes(ctx context.Context) ([]Revision, error) {
	// The inner query needs only the index, which has no texts.
	out, err := all(ctx, s.r, (*Revision).withTexts, `SELECT `+revisionColumns+`, text_before, text_after
		FROM config_revision WHERE id IN (SELECT id FROM config_revision AS r
		WHERE outcome = '' AND source NOT IN (?, ?) AND NOT EXISTS (SELECT 1 FROM config_revision
		WHERE model = r.model AND id > r.id AND source NOT IN (?, ?))) ORDER BY id`,
		SourceVersions, SourceOverride, SourceVersions, SourceOverride)
	return out, about(err, "unfinished configuration revisions")
}

// AddRevision stores r and returns it with what the store gives. If the error is nil, the revision is on disk and
// survives a loss of power. It removes the oldest revisions of the model beyond 1,000, and beyond 256 MiB of texts; the
// newest 20 stay whatever their size.
func (s *Store) AddRevision(ctx context.Context, r Revision) (Revision, error) {
	if r.Model == "" {
		return Revision{}, errors.New("configuration revision names no model")
	}
	if r.TimeUS == 0 {
		r.TimeUS = nowUS()
	}
	r.Added, r.Removed = countLines(r.Before, r.After)
	size := 0
	for _, text := range []*string{r.Before, r.After} {
		if text != nil {
			size += len(*text)
		}
	}
	err := s.durable(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `INSERT INTO config_revision (parent_id, model, time_us, source,
			restores_id, author, text_before, text_after, outcome, reason, added, removed, text_bytes)
			VALUES ((SELECT max(id) FROM config_revision WHERE model = ?), ?, ?, ?,
			nullif(?, 0), '', ?, ?, ?, ?, ?, ?, ?)
			RETURNING id, coalesce(parent_id, 0)`,
			r.Model, r.Model, r.TimeUS, r.Source, r.Restores, r.Before, r.After, r.Outcome, r.Reason, r.Added,
			r.Removed, size).Scan(&r.ID, &r.Parent)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM config_revision WHERE id IN (SELECT id FROM
			(SELECT id, row_number() OVER w AS n, sum(text_bytes) OVER w AS total FROM config_revision WHERE model = ?
			WINDOW w AS (ORDER BY id DESC)) WHERE n > ? OR n > ? AND total > ?)`,
			r.Model, maxRevisions, keptRevisions, maxRevisionBytes)
		return err
	})
	return r, about(err, "configuration revision of model %q is not stored", r.Model)
}

// SetRevisionOutcome stores what became of a revision, such as "loaded", and the reason of a failure.
func (s *Store) SetRevisionOutcome(ctx context.Context, id int64, outcome, reason string) error {
	err := s.change(ctx, `UPDATE config_revision SET outcome = ?, reason = ? WHERE id = ?`, outcome, reason, id)
	return about(err, "outcome of configuration revision %d", id)
}

// The bounds of the revisions of one model.
const (
	maxRevisions     = 1000
	keptRevisions    = 20 // whatever their size
	maxRevisionBytes = 256 << 20
)

const revisionColumns = "id, coalesce(parent_id, 0), model, time_us, source, coalesce(restores_id, 0), " +
	"outcome, reason, added, removed"

func (r *Revision) columns() []any {
	return []any{&r.ID, &r.Parent, &r.Model, &r.TimeUS, &r.Source, &r.Restores, &r.Outcome, &r.Reason, &r.Added,
		&r.Removed}
}

// withTexts is columns for a query that also selects the texts.
func (r *Revision) withTexts() []any { return append(r.columns(), &r.Before, &r.After) }

// Revision returns the revision with that ID, or ErrNotFound.
func (s *Store) Revision(ctx context.Context, id int64) (Revision, error) {
	r, err := one(ctx, s.r, (*Revision).withTexts, `SELECT `+revisionColumns+`, text_before, text_after
		FROM config_revision WHERE id = ?`, id)
	return r, about(err, "configuration revision %d", id)
}

// Revisions returns the revisions of a model without their texts, the latest first: those before beforeID, or all for
// 0; at most n (default 100, at most 1000).
func (s *Store) Revisions(ctx context.Context, model string, beforeID int64, n int) ([]Revision, error) {
	out, err := all(ctx, s.r, (*Revision).columns, `SELECT `+revisionColumns+` FROM config_revision
		WHERE model = ? AND (? = 0 OR id < ?) ORDER BY id DESC LIMIT ?`, model, beforeID, beforeID, limit(n, 100, 1000))
	return out, about(err, "configuration revisions of model %q", model)
}
