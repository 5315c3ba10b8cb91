package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Backup writes a compact copy of the database in the folder dir to the file target, which must not exist. Only its
// owner can read the copy. It has everything that was committed: all but the samples and events of the last second. A
// server may write to the database meanwhile. An older schema stays as it is.
func Backup(ctx context.Context, dir, target string) error {
	path := filepath.Join(dir, FileName)
	if err := usable(ctx, path); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("backup: %s exists already; name a new file", target)
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	err = copyDatabase(ctx, path, target)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("backup: %w", err), os.Remove(target))
	}
	return nil
}

// Restore replaces the database in the folder dir by the backup source. It makes the folder if it does not exist. No
// process may have the old database open. That is renamed, not deleted: aside is its new name, "" if there was none. A
// source that is damaged or not ours is refused, one of a newer Nereid with a *NewerSchemaError; then nothing changes.
// The next Open updates an older schema.
func Restore(ctx context.Context, source, dir string) (aside string, err error) {
	if err := usable(ctx, source); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	path := filepath.Join(dir, FileName)
	fresh := path + "-restoring"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a restore that was killed
		return "", fmt.Errorf("restore: %w", err)
	}
	if err = createPrivate(fresh); err == nil {
		err = copyDatabase(ctx, source, fresh)
	}
	if err == nil {
		err = syncFile(fresh)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("restore: %w", err), os.Remove(fresh))
	}
	if _, err := os.Lstat(path); err == nil {
		if aside, err = setAside(path, "replaced", time.Now()); err != nil {
			return "", fmt.Errorf("restore: the present database cannot be set aside: %w", err)
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return aside, fmt.Errorf("restore: %w", err)
	}
	return aside, syncFile(dir)
}

// usable checks the whole database at path and returns why it cannot be copied.
func usable(ctx context.Context, path string) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	why, err := inspect(ctx, path, len(steps))
	if err != nil {
		return err
	}
	if why != "" {
		return fmt.Errorf("database %s is %s", path, why)
	}
	db := openDB(dsn(path, probeParams), 1)
	defer db.Close()
	var app int
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&app); err != nil {
		return openError(path, err)
	}
	if app != applicationID {
		return fmt.Errorf("database %s is empty", path)
	}
	answer, err := integrity(ctx, db, path)
	if err == nil && answer != "ok" {
		err = fmt.Errorf("database %s is damaged: %s", path, answer)
	}
	return err
}

// copyDatabase writes what is committed in a database to an empty file.
func copyDatabase(ctx context.Context, from, to string) error {
	db := openDB(dsn(from, probeParams), 1)
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return openError(from, err)
	}
	return nil
}

// syncFile waits until a file or folder is on disk.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
