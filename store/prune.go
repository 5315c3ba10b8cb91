package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"
)

const (
	pruneRows  = 2000        // rows removed in one transaction, so that the writer is soon free again
	pruneAgain = time.Second // between two transactions while there is more to remove
	prunePages = 1000        // free pages given back to the file system in one go

	// clockJump is the difference between the clock on the wall and the monotonic one from which it counts as a jump
	// (the clock was set, or the machine slept). Nothing is removed for its age until the clock has then run
	// smoothly for clockTrust, so that one wrong date does not wipe the history.
	clockJump  = time.Hour
	clockTrust = time.Hour
)

// pruner enforces the limits of age and size, a few rows at a time. It runs on the writer's goroutine.
type pruner struct {
	s       *Store
	base    time.Time // the last look, by the monotonic clock
	wallUS  int64     // and by the one on the wall
	trusted time.Time // not before then is age looked at
}

func newPruner(s *Store) pruner {
	now := time.Now()
	return pruner{s: s, base: now, wallUS: now.UnixMicro(), trusted: now}
}

// step removes up to pruneRows and answers the time until the next step.
func (p *pruner) step() time.Duration {
	more, err := p.remove(context.Background())
	if err != nil {
		p.s.countError(err)
		p.s.opt.Log.Warn("history database: old rows cannot be removed", "path", p.s.path, "err", err)
		if isDamage(err) {
			p.s.markSuspect()
		}
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
		p.s.opt.Log.Warn("the clock jumped; history is not removed for its age for a while", "by", by.Round(time.Second))
		p.trusted = now.Add(clockTrust)
	}
	p.base, p.wallUS = now, now.UnixMicro()
	var removed int64
	if !now.Before(p.trusted) {
		if removed, err = p.removeOld(ctx, now); err != nil {
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
	return removed > 0, p.giveBack(ctx)
}

// giveBack shrinks the file by free pages. The statement frees one page for each of its rows, so all are read.
func (p *pruner) giveBack(ctx context.Context) error {
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

// size is the number of bytes in use in the database; it also notes the size of its files.
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
	p.s.mu.Lock()
	p.s.health.Bytes = total
	p.s.mu.Unlock()
	return (pages - free) * width, nil
}

// removeOld removes rows that are older than their limit.
func (p *pruner) removeOld(ctx context.Context, now time.Time) (int64, error) {
	keep := [len(levels)]time.Duration{p.s.opt.KeepSeconds, p.s.opt.KeepMinutes, p.s.opt.KeepHours}
	for l, level := range levels {
		n, err := p.removeSamples(ctx, level.table, now.Add(-keep[l]).UnixMicro())
		if n > 0 || err != nil {
			return n, err
		}
	}
	n, err := p.exec(ctx, `DELETE FROM span WHERE to_us < ?`, now.Add(-p.s.opt.KeepHours).UnixMicro())
	if n > 0 || err != nil {
		return n, err
	}
	return p.exec(ctx, `DELETE FROM event WHERE id IN (SELECT id FROM event WHERE time_us < ? ORDER BY time_us LIMIT ?)`,
		now.Add(-p.s.opt.KeepEvents).UnixMicro(), pruneRows)
}

// removeSamples removes rows of any series that begin before beforeUS.
func (p *pruner) removeSamples(ctx context.Context, table string, beforeUS int64) (int64, error) {
	return p.exec(ctx, `DELETE FROM `+table+` WHERE (series_id, start_us) IN (
		SELECT series_id, start_us FROM series JOIN `+table+` ON series_id = id WHERE start_us < ? LIMIT ?)`, beforeUS, pruneRows)
}

// removeOldest makes room: the oldest twentieth of the finest samples that are still many, then the oldest events.
func (p *pruner) removeOldest(ctx context.Context) (int64, error) {
	for _, level := range levels {
		var first, last sql.NullInt64
		err := p.s.w.QueryRowContext(ctx, `SELECT min(start_us), max(start_us) FROM `+level.table).Scan(&first, &last)
		if err != nil {
			return 0, err
		}
		span := last.Int64 - first.Int64
		if !first.Valid || span < 60*level.width {
			continue // leave some of each
		}
		n, err := p.removeSamples(ctx, level.table, first.Int64+max(span/20, level.width))
		if n > 0 || err != nil {
			return n, err
		}
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
