package python

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"nereid/engine/status"
	"nereid/engine/system/proc"
)

// Limits of an archive.
const (
	maxArchive     = 64 << 30  // bytes that it unpacks to
	maxEntries     = 1_000_000 // PyTorch with CUDA has about 50,000
	maxRatio       = 200       // of unpacked to packed bytes, once more than ratioFrom bytes are unpacked
	ratioFrom      = 64 << 20
	freeBytesAfter = 64 << 20 // that stay free on the disk
)

// unpackArchive unpacks a tar archive, plain or compressed by gzip, bzip2 or zstd, into a new folder. It writes through
// os.Root, so nothing is written outside the folder. Errors: InvalidArg for an archive that is damaged, has a path
// outside, or exceeds a limit; Unavailable if the disk is too small.
func unpackArchive(ctx context.Context, archive, folder string) error {
	f, err := os.Open(archive)
	if err != nil {
		return status.Errorf(status.NotFound, "%w", err)
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return status.Errorf(status.Internal, "%w", err)
	}
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
	u := &unpacking{ctx: ctx, archive: archive, folder: folder, packed: info.Size()}
	for t := tar.NewReader(&countedReader{u: u, r: r}); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = u.allow(h)
		}
		if err == nil {
			if err = unpackEntry(root, h, t); err != nil {
				err = fmt.Errorf("%s: %w", h.Name, err)
			}
		}
		if err != nil {
			return damaged(archive, err)
		}
	}
}

// unpacking is how much of an archive was unpacked.
type unpacking struct {
	ctx             context.Context // ends the work
	archive, folder string
	packed          int64 // bytes of the archive
	read            int64 // bytes of the tar
	sizes           int64 // bytes of its files, which have holes in a sparse one
	entries         int
}

// allow refuses an entry that exceeds a limit or does not fit on the disk.
func (u *unpacking) allow(h *tar.Header) error {
	if u.entries++; u.entries > maxEntries {
		return status.Errorf(status.InvalidArg, "%s has more than %d entries; leave out what the model does not need",
			u.archive, maxEntries)
	}
	u.sizes += h.Size
	if err := u.check(u.sizes); err != nil {
		return err
	}
	if free, ok := proc.FreeBytes(u.folder); ok && uint64(h.Size)+freeBytesAfter > free {
		return status.Errorf(status.Unavailable,
			"%s does not fit: %s has %d bytes, and %d are free in %s, of which %d stay free; free some space",
			u.archive, h.Name, h.Size, free, u.folder, int64(freeBytesAfter))
	}
	return nil
}

// check refuses an archive that unpacks to so many bytes.
func (u *unpacking) check(n int64) error {
	switch {
	case u.ctx.Err() != nil:
		return u.ctx.Err()
	case n > maxArchive:
		return status.Errorf(status.InvalidArg, "%s unpacks to more than %d bytes", u.archive, int64(maxArchive))
	case n > ratioFrom && n > maxRatio*u.packed:
		return status.Errorf(status.InvalidArg,
			"%s unpacks to more than %d times its size, so it is taken for a bomb; unpack it by hand, "+
				"and name the folder", u.archive, maxRatio)
	}
	return nil
}

// countedReader counts the bytes of the tar, headers included.
type countedReader struct {
	u *unpacking
	r io.Reader
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.u.read += int64(n)
	if limit := c.u.check(c.u.read); limit != nil {
		return 0, limit
	}
	return n, err
}

// damaged returns an error of an archive. Those of its limits and of the disk stay what they are.
func damaged(archive string, err error) error {
	var coded *status.Error
	switch {
	case errors.As(err, &coded), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return status.Errorf(status.Unavailable, "%s cannot be unpacked: %w; free some space", archive, err)
	}
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
