package folders

import (
	"os"

	"golang.org/x/sys/unix"
)

// Exchange swaps two folders in one step. File systems that cannot do that take two renames.
func Exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if err == nil {
		return nil
	}
	if !isUnsupported(err) {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return exchangeByRenames(a, b)
}

// Place renames a folder to a path where nothing is. The error for a path that is taken wraps fs.ErrExist.
func Place(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == nil {
		return nil
	}
	if !isUnsupported(err) {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return placeByRename(from, to)
}

// isUnsupported reports whether a file system or kernel lacks a kind of rename.
func isUnsupported(err error) bool {
	return err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP
}
