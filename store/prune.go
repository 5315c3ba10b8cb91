package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"
)

const (
	pruneRows   = 2000        // rows removed in one transaction, to keep it short
	pruneAgain  = time.Second // between two transactions while there is more to remove
	fewRequests = 10_000      // so many stay when the database is above its size
	prunePages  = 1000        // free pages returned to the file system in one step

	// clockJump is the difference between the wall clock and the monotonic clock that counts as a jump: the clock was
	// set, or the machine was suspended. After a jump nothing is removed because of its age for clockTrust, so that one
	// wrong date does not delete the history.
	clockJump  = time.Hour
	clockTrust = time.Hour
)

// pruner enforces the limits of age and size in small steps. It runs on the writer's goroutine.
type pruner struct {
	s       *Store
	base    time.Time // of the last step, by the monotonic clock
	wallUS  int64     // of the last step, by the wall clock
	trusted time.Time // before then nothing is removed because of its age
}

func newPruner(s *Store) pruner {
	now := time.Now()
	return pruner{s: s, base: now, wallUS: now.UnixMicro(), trusted: now}
}

// step removes up to pruneRows and returns the time until the next step.
func (p *pruner) step() time.Duration {
	more, err := p.remove(context.Background())
	if err != nil {
		p.s.writeFailed(err)
		p.s.opt.Log.Warn("history database: old rows cannot be removed", "path", p.s.path, "err", err)
		return p.s.opt.PruneEvery
	}
	if more {
		return min(pruneAgain, p.s.opt.PruneEvery)
	}
	return p.s.opt.PruneEvery
}

func (p *pruner) remove(ctx context.Context) (more bool, err error) {
	now := time.Now()
	wall := time.Duration(now.UnixMicro()-p.wallUS) * time.Microsecond
	if by := wall - now.Sub(p.base); by.Abs() > clockJump {
		p.s.opt.Log.Warn("the clock jumped; history is not removed for its age for a while", "by",
			by.Round(time.Second))
		p.trusted = now.Add(clockTrust)
	}
	p.base, p.wallUS = now, now.UnixMicro()
	var removed int64
	if !now.Before(p.trusted) {
		if removed, err = p.removeOld(ctx, now); err != nil {
			return false, err
		}
	}
	if removed == 0 {
		if removed, err = p.removeRequests(ctx, p.s.opt.KeepRequests); err != nil {
			return false, err
		}
	}
	size, err := p.size(ctx)
	if err != nil {
		return false, err
	}
	if removed == 0 && size > p.s.opt.MaxBytes {
		if removed, err = p.removeOldest(ctx); err != nil {
			return false, err
		}
	}
	return removed > 0, p.shrink(ctx)
}

// shrink returns free pages to the file system. The statement frees one page for each row that is read.
func (p *pruner) shrink(ctx context.Context) error {
	rows, err := p.s.w.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", prunePages))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		continue
	}
	return rows.Err()
}

// size returns how many bytes of the database are in use. It also updates Health.Bytes.
func (p *pruner) size(ctx context.Context) (int64, error) {
	var pages, free, width int64
	for sql, to := range map[string]*int64{"page_count": &pages, "freelist_count": &free, "page_size": &width} {
		if err := p.s.w.QueryRowContext(ctx, "PRAGMA "+sql).Scan(to); err != nil {
			return 0, err
		}
	}
	total := pages * width
	if info, err := os.Stat(p.s.path + "-wal"); err == nil {
		total += info.Size()
	}
	p.s.health.change(func(h *Health) { h.Bytes = total })
	return (pages - free) * width, nil
}

// removeOld removes rows above their age limit.
func (p *pruner) removeOld(ctx context.Context, now time.Time) (int64, error) {
	keep := [len(levels)]time.Duration{p.s.opt.KeepSeconds, p.s.opt.KeepMinutes, p.s.opt.KeepHours}
	for l, level := range levels {
		n, err := p.removeSamples(ctx, level.table, now.Add(-keep[l]).UnixMicro())
		if n > 0 || err != nil {
			return n, err
		}
	}
	n, err := p.exec(ctx, deleteGauges, now.Add(-p.s.opt.KeepMinutes).UnixMicro(), pruneRows)
	if n > 0 || err != nil {
		return n, err
	}
	n, err = p.exec(ctx, `DELETE FROM span WHERE to_us < ?`, now.Add(-p.s.opt.KeepHours).UnixMicro())
	if n > 0 || err != nil {
		return n, err
	}
	return p.exec(ctx,
		`DELETE FROM event WHERE id IN (SELECT id FROM event WHERE time_us < ? ORDER BY time_us LIMIT ?)`,
		now.Add(-p.s.opt.KeepEvents).UnixMicro(), pruneRows)
}

// deleteGauges removes gauges that begin before a time: the oldest, up to a number.
const deleteGauges = `DELETE FROM gauge WHERE (start_us, name, model) IN (
	SELECT start_us, name, model FROM gauge WHERE start_us < ? ORDER BY start_us LIMIT ?)`

// removeSamples removes rows of any series that begin before beforeUS.
func (p *pruner) removeSamples(ctx context.Context, table string, beforeUS int64) (int64, error) {
	return p.exec(ctx, `DELETE FROM `+table+` WHERE (series_id, start_us) IN (
		SELECT series_id, start_us FROM series JOIN `+table+` ON series_id = id WHERE start_us < ? LIMIT ?)`,
		beforeUS, pruneRows)
}

// removeOldest removes the oldest requests but for some, or else the oldest twentieth of the finest samples of which
// many are left, or else the oldest events.
func (p *pruner) removeOldest(ctx context.Context) (int64, error) {
	if n, err := p.removeRequests(ctx, fewRequests); n > 0 || err != nil {
		return n, err
	}
	for _, level := range levels {
		var first, last sql.NullInt64
		err := p.s.w.QueryRowContext(ctx, `SELECT min(start_us), max(start_us) FROM `+level.table).Scan(&first, &last)
		if err != nil {
			return 0, err
		}
		span := last.Int64 - first.Int64
		if !first.Valid || span < 60*level.width {
			continue // keep some of each resolution
		}
		n, err := p.removeSamples(ctx, level.table, first.Int64+max(span/20, level.width))
		if n > 0 || err != nil {
			return n, err
		}
	}
	// The oldest gauges, but for those of the last hour.
	n, err := p.exec(ctx, deleteGauges, nowUS()-hour, pruneRows)
	if n > 0 || err != nil {
		return n, err
	}
	return p.exec(ctx, `DELETE FROM event WHERE id IN (SELECT id FROM event ORDER BY id LIMIT ?)
		AND id < (SELECT max(id) FROM event) - 1000`, pruneRows)
}

func (p *pruner) exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := p.s.w.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
