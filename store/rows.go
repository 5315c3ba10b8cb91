package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
)

// each runs a query and returns its rows. columns returns the places of a row's columns. After an error there are no
// more rows.
func each[T any](ctx context.Context, db *sql.DB, columns func(*T) []any, query string, args ...any) iter.Seq2[T,
	error] {
	return func(yield func(T, error) bool) {
		var none T
		rows, err := db.QueryContext(ctx, query, args...)
		if err != nil {
			yield(none, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var row T
			if err := rows.Scan(columns(&row)...); !yield(row, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(none, err)
		}
	}
}

// all returns all rows of a query; see each.
func all[T any](ctx context.Context, db *sql.DB, columns func(*T) []any, query string, args ...any) (out []T,
	err error) {
	for row, err := range each(ctx, db, columns, query, args...) {
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// one returns the only row of a query, or ErrNotFound; see each.
func one[T any](ctx context.Context, db *sql.DB, columns func(*T) []any, query string, args ...any) (row T, err error) {
	err = db.QueryRowContext(ctx, query, args...).Scan(columns(&row)...)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return row, err
}

// about adds to an error what it is about. A nil error stays nil.
func about(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
