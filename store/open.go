package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// FileName is the name of the database in its folder. SQLite has "-wal" and "-shm" files beside it.
const FileName = "nereid.db"

// connector opens connections with our SQL functions, without a global driver name.
type connector struct {
	drv *sqlite3.SQLiteDriver
	dsn string
}

func newConnector(dsn string) connector {
	hook := func(c *sqlite3.SQLiteConn) error {
		return errors.Join(c.RegisterFunc("hist_merge", mergeBlobs, true),
			c.RegisterFunc("lines_added", linesAdded, true))
	}
	return connector{drv: &sqlite3.SQLiteDriver{ConnectHook: hook}, dsn: dsn}
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.drv.Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return c.drv }

func openDB(dsn string, conns int) *sql.DB {
	db := sql.OpenDB(newConnector(dsn))
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// dsn returns the data source name of the database at path.
func dsn(path, params string) string {
	if abs, err := filepath.Abs(path); err == nil { // a relative path would be read as the host of the URL
		path = abs
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: params}).String()
}

const (
	writerParams = "_journal_mode=WAL&_busy_timeout=5000&_synchronous=NORMAL&_auto_vacuum=incremental" +
		"&_txlock=immediate&_foreign_keys=1"
	readerParams = "_busy_timeout=5000&_query_only=1"
	probeParams  = "_busy_timeout=5000"
)

// Open opens the database in the folder dir and starts its writer. It makes the folder if it does not exist.
//
// A database that is damaged, or is not ours, is renamed (its new name says when and why) and a new one is made;
// Warnings reports it. With Options.KeepDamaged it is an error. A database of a newer Nereid is refused with a
// *NewerSchemaError. Other errors (the folder cannot be written, another process holds the database) leave everything
// as it is; the server can continue with OpenMemory.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w; choose another with --data-dir", err)
	}
	path := filepath.Join(dir, FileName)
	steps, err := migrations()
	if err != nil {
		return nil, err
	}
	var warnings []string
	why, err := inspect(ctx, path, len(steps))
	if err != nil {
		return nil, err
	}
	if why != "" {
		if o.KeepDamaged {
			return nil, fmt.Errorf("database %s is %s", path, why)
		}
		word := "damaged"
		if why != word {
			word = "foreign"
		}
		aside, err := setAside(path, word, time.Now())
		if err != nil {
			return nil, fmt.Errorf("database %s is %s and cannot be set aside: %w", path, why, err)
		}
		warnings = append(warnings, fmt.Sprintf("database %s is %s: it was set aside as %s and a new one started; "+
			"earlier history and settings are in the old file", path, why, aside))
	}
	if err := create(ctx, path, steps); err != nil {
		return nil, err
	}
	w := openDB(dsn(path, writerParams), 1)
	if err := migrate(ctx, w, steps); err != nil {
		w.Close()
		return nil, openError(path, err)
	}
	return start(ctx, path, w, openDB(dsn(path, readerParams), 4), o, warnings)
}

// OpenMemory opens a database in memory, for a server whose data folder cannot be used.
func OpenMemory(ctx context.Context, o Options) (*Store, error) {
	steps, err := migrations()
	if err != nil {
		return nil, err
	}
	db := openDB("file::memory:?_synchronous=NORMAL&_txlock=immediate&_foreign_keys=1", 1)
	if err := migrate(ctx, db, steps); err != nil {
		db.Close()
		return nil, openError("in memory", err)
	}
	warning := "history and settings are kept in memory only and end with this process"
	return start(ctx, "", db, db, o, []string{warning})
}

// newSuffix names a database that is being made.
const newSuffix = "-new"

// create makes a database that only its owner can read, unless the file exists. SQLite gives its other files the same
// mode. SQLite would sync each step to the disk; this makes the whole database under another name, and syncs it once.
func create(ctx context.Context, path string, steps []string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // an error is that of the database
	}
	failed := func(err error) error {
		return fmt.Errorf("database %s: %w; choose another folder with --data-dir", path, err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} { // of an interrupted call
		if err := os.Remove(path + newSuffix + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(err)
		}
	}
	if err := createPrivate(path + newSuffix); err != nil {
		return failed(err)
	}
	db := openDB(dsn(path+newSuffix, "_txlock=immediate&_foreign_keys=1"), 1)
	// Not as parameters: the driver would turn the syncs off last.
	_, err := db.ExecContext(ctx, "PRAGMA synchronous=OFF; PRAGMA auto_vacuum=incremental; PRAGMA journal_mode=WAL")
	if err == nil {
		err = migrate(ctx, db, steps)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return openError(path, err)
	}
	if err := errors.Join(syncFile(path+newSuffix), os.Rename(path+newSuffix, path)); err != nil {
		return failed(err)
	}
	_ = syncFile(filepath.Dir(path)) // not all file systems can do that
	return nil
}

// createPrivate makes an empty file that only its owner can read, unless the file exists.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// inspect checks the database at path without changing it. why is "" for one that can be used, or that does not exist.
// Otherwise it says why the database must be renamed.
func inspect(ctx context.Context, path string, known int) (why string, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("database: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("database %s is not a regular file; move it away or choose another --data-dir", path)
	}
	db := openDB(dsn(path, probeParams), 1)
	defer db.Close()
	var app, version, tables int
	for _, q := range []struct {
		sql string
		to  *int
	}{
		{"PRAGMA application_id", &app},
		{"PRAGMA user_version", &version},
		{"SELECT count(*) FROM sqlite_schema", &tables},
	} {
		if err := db.QueryRowContext(ctx, q.sql).Scan(q.to); err != nil {
			if isDamage(err) {
				return "damaged", nil
			}
			return "", openError(path, err)
		}
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		return "", nil // empty
	case app != applicationID:
		return "not a Nereid database", nil
	case version > known:
		return "", &NewerSchemaError{Path: path, Found: version, Known: known}
	}
	if _, err := os.Stat(path + suspectSuffix); err == nil {
		if answer, err := integrity(ctx, db, path); err != nil || answer != "ok" {
			return "damaged", err
		}
		return "", os.Remove(path + suspectSuffix)
	}
	return "", nil
}

// suspectSuffix names the empty file that the writer makes beside a database that it found to be damaged. The next Open
// then checks the whole database. This takes seconds for a large database, too long for every start.
const suspectSuffix = "-suspect"

// integrity checks the whole database. The answer is "ok", or says what is damaged.
func integrity(ctx context.Context, db *sql.DB, path string) (answer string, err error) {
	err = db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&answer)
	if err != nil && !isDamage(err) {
		return "", openError(path, err)
	}
	return answer, nil
}

// setAside renames the database and the files beside it, and returns the new name. The name has the word: damaged,
// foreign or replaced.
func setAside(path, word string, now time.Time) (string, error) {
	stamp := now.UTC().Format("20060102T150405Z")
	aside := fmt.Sprintf("%s.%s-%s", path, word, stamp)
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s.%s-%s-%d", path, word, stamp, n)
	}
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	if err := os.Remove(path + suspectSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return aside, nil
}

// openError adds to an error of SQLite what the user can do about it.
func openError(path string, err error) error {
	var newer *NewerSchemaError
	if errors.As(err, &newer) {
		newer.Path = path
		return newer
	}
	var e sqlite3.Error
	if errors.As(err, &e) {
		if e.SystemErrno == syscall.ENOSPC || e.SystemErrno == syscall.EDQUOT {
			e.Code = sqlite3.ErrFull // some operations report it as an error of input and output
		}
		switch e.Code {
		case sqlite3.ErrBusy, sqlite3.ErrLocked:
			return fmt.Errorf("database %s is in use by another process: %w; stop it, or choose another --data-dir",
				path, err)
		case sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrCantOpen:
			return fmt.Errorf("database %s cannot be written: %w; change its permissions, or choose another --data-dir",
				path, err)
		case sqlite3.ErrFull:
			return fmt.Errorf("database %s: %w: %w; free some space, or choose another --data-dir", path, ErrFull, err)
		}
	}
	return fmt.Errorf("database %s: %w", path, err)
}

func isDamage(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB)
}

// isTransient reports whether an error is of the disk, which may recover, and not of the rows.
func isTransient(err error) bool {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case sqlite3.ErrFull, sqlite3.ErrIoErr, sqlite3.ErrReadonly, sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrNomem,
		sqlite3.ErrCantOpen, sqlite3.ErrPerm, sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
		return true
	}
	return false
}
