package store

import (
	"context"
	"database/sql"
	"errors"
)

// scanFunc reads the columns of a row, as (*sql.Rows).Scan.
type scanFunc = func(...any) error

// queryEach runs a query and calls read for each of its rows.
func queryEach(ctx context.Context, db *sql.DB, read func(scanFunc) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// queryAll runs a query and returns all its rows.
func queryAll[T any](ctx context.Context, db *sql.DB, read func(scanFunc) (T, error), query string,
	args ...any) (out []T, err error) {
	err = queryEach(ctx, db, func(scan scanFunc) error {
		v, err := read(scan)
		out = append(out, v)
		return err
	}, query, args...)
	return out, err
}

// queryOne runs a query and returns its only row, or ErrNotFound.
func queryOne[T any](ctx context.Context, db *sql.DB, read func(scanFunc) (T, error), query string, args ...any) (T,
	error) {
	v, err := read(db.QueryRowContext(ctx, query, args...).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return v, err
}
