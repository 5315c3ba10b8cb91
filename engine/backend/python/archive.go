package python

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"nereid/engine/status"
)

// maxArchive is how many bytes an archive may unpack to.
const maxArchive = 64 << 30

// unpackArchive unpacks a tar archive, plain or compressed by gzip, bzip2 or zstd, into a new folder. It writes through
// os.Root, so nothing is written outside the folder. Errors: InvalidArg for an archive that is damaged or has a path
// outside.
func unpackArchive(archive, folder string) error {
	f, err := os.Open(archive)
	if err != nil {
		return status.Errorf(status.NotFound, "%w", err)
	}
	defer f.Close() // read only
	r, closeIt, err := plain(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return damaged(archive, err)
	}
	defer closeIt()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close() // a folder
	left := int64(maxArchive)
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged(archive, err)
		}
		if left -= h.Size; left < 0 {
			return status.Errorf(status.InvalidArg, "%s unpacks to more than %d bytes", archive, int64(maxArchive))
		}
		if err := unpackEntry(root, h, t); err != nil {
			return damaged(archive, fmt.Errorf("%s: %w", h.Name, err))
		}
	}
}

func damaged(archive string, err error) error {
	return status.Errorf(status.InvalidArg,
		"%s is not an archive that can be unpacked (tar, as it is or packed by gzip, bzip2 or zstd): %w", archive, err)
}

// plain decompresses r, whose first bytes say how it is compressed. The caller calls closeIt when it has read enough.
func plain(r *bufio.Reader) (plain io.Reader, closeIt func(), err error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, nil, err
	}
	closeIt = func() {}
	switch {
	case strings.HasPrefix(string(head), "\x1f\x8b"):
		plain, err = gzip.NewReader(r)
	case strings.HasPrefix(string(head), "BZh"):
		plain = bzip2.NewReader(r)
	case string(head) == "\x28\xb5\x2f\xfd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(r); err == nil {
			plain, closeIt = z, z.Close // it has goroutines
		}
	default:
		plain = r
	}
	return plain, closeIt, err
}

func unpackEntry(root *os.Root, h *tar.Header, r io.Reader) error {
	name := filepath.Clean(filepath.FromSlash(h.Name))
	if name == "." || h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if !filepath.IsLocal(name) {
		return errors.New("the path leads out of the archive")
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(h.Mode)&0o755|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Close())
	// The target is not checked: writes through the link go through root, and only the model reads through it.
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(filepath.Clean(filepath.FromSlash(h.Linkname)), name)
	}
	return fmt.Errorf("an entry of kind %q is neither a file nor a folder nor a link", h.Typeflag)
}
