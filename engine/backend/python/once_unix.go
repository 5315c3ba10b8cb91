//go:build unix

package python

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// once calls make to fill a folder, unless that was done before. Only one process at a time does this; others wait
// until the folder is complete or ctx ends. A folder that was not completed is removed first.
func once(ctx context.Context, folder string, make func() error) error {
	done := filepath.Join(folder, ".complete")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(folder+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // this unlocks it
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := make(); err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	return os.WriteFile(done, nil, 0o600)
}
