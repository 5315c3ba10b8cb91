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
	if err != unix.EINVAL && err != unix.ENOSYS && err != unix.EOPNOTSUPP {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return exchangeByRenames(a, b)
}
