package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// applicationID marks our databases in the SQLite header ("NRID").
const applicationID = 0x4e524944

// migrations returns the schema changes in order: number n, from 1, changes schema n-1 into n. A released migration
// never changes.
func migrations() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var all []string
	for i, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s is out of order: want number %04d", name, i+1)
		}
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, string(text))
	}
	return all, nil
}

// migrate brings the database to schema len(steps). Each step and its number are one transaction, so that an
// interruption leaves a complete older schema. db must have one connection.
func migrate(ctx context.Context, db *sql.DB, steps []string) error {
	var at int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&at); err != nil {
		return err
	}
	if at > len(steps) {
		return &NewerSchemaError{Found: at, Known: len(steps)}
	}
	for n := at + 1; n <= len(steps); n++ {
		if err := migrateOne(ctx, db, n, steps[n-1]); err != nil {
			return fmt.Errorf("migration %d: %w", n, err)
		}
	}
	return nil
}

func migrateOne(ctx context.Context, db *sql.DB, n int, step string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // without effect after Commit
	if _, err := tx.ExecContext(ctx, step); err != nil {
		return err
	}
	pragmas := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, n)
	if _, err := tx.ExecContext(ctx, pragmas); err != nil {
		return err
	}
	return tx.Commit()
}

// NewerSchemaError is returned for a database that a newer Nereid wrote. Such a database is not renamed, since it is
// not damaged.
type NewerSchemaError struct {
	Path         string
	Found, Known int // schema numbers
}

func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("database %s has schema %d, this program knows schemas up to %d: a newer version wrote it; "+
		"start that version, or choose another --data-dir", e.Path, e.Found, e.Known)
}
