package folders

import (
	"archive/zip"
	"errors"
	"io"
)

// ErrZipTooLarge is returned for a zip whose directory is larger than OpenZip reads.
var ErrZipTooLarge = errors.New("the zip has too many entries")

// maxZipDirectory is how many bytes OpenZip reads. Package zip needs about four times as much memory for the entries.
const maxZipDirectory = 8 << 20

// OpenZip opens a zip, whatever the names in it. Its directory may have 8 MiB, which are about 80,000 entries; else the
// error is ErrZipTooLarge. The sizes that a zip states about its directory are not trusted.
func OpenZip(r io.ReaderAt, size int64) (*zip.Reader, error) {
	limited := &limitedReader{r: r, left: maxZipDirectory}
	z, err := zip.NewReader(limited, size)
	if errors.Is(err, zip.ErrInsecurePath) { // the caller checks the names
		err = nil
	}
	limited.left = -1
	return z, err
}

// limitedReader fails when more than left bytes were read. left < 0: there is no limit.
type limitedReader struct {
	r    io.ReaderAt
	left int64
}

func (l *limitedReader) ReadAt(p []byte, off int64) (int, error) {
	if l.left < 0 {
		return l.r.ReadAt(p, off)
	}
	if int64(len(p)) > l.left {
		return 0, ErrZipTooLarge
	}
	n, err := l.r.ReadAt(p, off)
	l.left -= int64(n)
	return n, err
}
