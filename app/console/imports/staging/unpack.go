package staging

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"nereid/app/console/folders"
	"nereid/app/console/rest"
)

// archiveKind returns "zip", "tar", "tgz" or "txz" for the name of an archive that can be unpacked, else "".
func archiveKind(name string) string {
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, ".zip"),
		strings.HasSuffix(lower, ".mar"), // TorchServe's
		strings.HasSuffix(lower, ".nav"): // Model Navigator's
		return "zip"
	case strings.HasSuffix(lower, ".tar"):
		return "tar"
	case strings.HasSuffix(lower, ".tar.gz"), strings.HasSuffix(lower, ".tgz"):
		return "tgz"
	case strings.HasSuffix(lower, ".tar.xz"), strings.HasSuffix(lower, ".txz"),
		strings.HasSuffix(lower, ".bento"), strings.HasSuffix(lower, ".bentomodel"): // BentoML's
		return "txz"
	}
	return ""
}

// unpack unpacks a received archive into a new Area below this one. The caller closes the root of the new Area; its
// folder is removed with this Area's.
func (a *Area) unpack(name string) (*Area, error) {
	_ = a.root.RemoveAll("unpacked") // left by an earlier Arrange
	into, err := NewArea(a.dir+"/unpacked", a.limits)
	if err != nil {
		return nil, err
	}
	if err := a.unpackInto(into, name); err != nil {
		into.root.Close()
		return nil, err
	}
	return into, nil
}

func (a *Area) unpackInto(into *Area, name string) error {
	f, err := a.root.Open(path.Join(inFolder, name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	u := &unpacker{into: into, archive: name, packed: info.Size()}
	return u.unpack(f, archiveKind(name))
}

// PutArchive takes in the files of an archive of a kind "zip", "tar", "tgz" or "txz". If under is not empty, these are
// the files below the folder under, which keep their paths in it; other entries are not looked at.
func (a *Area) PutArchive(f *os.File, kind, under string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	u := &unpacker{into: a, archive: path.Base(f.Name()), packed: info.Size(), under: under}
	return u.unpack(f, kind)
}

func (u *unpacker) unpack(f interface {
	io.Reader
	io.ReaderAt
}, kind string) (err error) {
	switch kind {
	case "zip":
		err = u.zip(f, u.packed)
	case "tar":
		err = u.tar(bufio.NewReader(f))
	case "txz":
		err = u.xz(f)
	default:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bufio.NewReader(f)); err == nil {
			err = u.tar(z)
		}
	}
	if own := (*rest.Error)(nil); err != nil && !errors.As(err, &own) {
		err = invalid("%s cannot be unpacked: %v", u.archive, err)
	}
	return err
}

type unpacker struct {
	into     *Area
	archive  string
	packed   int64 // bytes of the archive
	under    string
	unpacked int64
	entries  int
}

func (u *unpacker) zip(r io.ReaderAt, size int64) error {
	z, err := folders.OpenZip(r, size)
	if errors.Is(err, folders.ErrZipTooLarge) {
		return tooLarge("%s has too many entries; pack at most %d files", u.archive, u.into.limits.Files)
	}
	if err != nil {
		return err
	}
	var declared uint64
	for _, f := range z.File {
		if declared += f.UncompressedSize64; declared > uint64(u.into.limits.Bytes) {
			return tooLarge("%s unpacks to more than %d bytes", u.archive, u.into.limits.Bytes)
		}
	}
	for _, f := range z.File {
		if f.Flags&1 != 0 {
			return invalid("%s: %q is encrypted; pack it without a password", u.archive, f.Name)
		}
		mode := f.Mode()
		if strings.HasSuffix(f.Name, "/") {
			mode |= fs.ModeDir
		}
		open := func() (io.ReadCloser, error) {
			r, err := f.Open()
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{u.count(r), r}, nil
		}
		if err := u.entry(f.Name, mode, open); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) tar(r io.Reader) error {
	t := tar.NewReader(u.count(r)) // headers and skipped files count too
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return err
		}
		mode := h.FileInfo().Mode()
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir:
		case tar.TypeXGlobalHeader:
			continue
		default: // links of both kinds, devices, pipes
			mode |= fs.ModeIrregular
		}
		if err := u.entry(h.Name, mode, func() (io.ReadCloser, error) { return io.NopCloser(t), nil }); err != nil {
			return err
		}
	}
}

// entry stores one entry of the archive.
func (u *unpacker) entry(name string, mode fs.FileMode, open func() (io.ReadCloser, error)) error {
	if u.entries++; u.entries > 4*u.into.limits.Files {
		return tooLarge("%s has more than %d entries", u.archive, 4*u.into.limits.Files)
	}
	if name = strings.TrimPrefix(name, "./"); name == "" { // tar writes them for the folder "."
		return nil
	}
	if u.under != "" {
		below, ok := strings.CutPrefix(name, u.under+"/")
		if name = below; !ok || below == "" {
			return nil
		}
	}
	clean, err := CleanPath(name)
	if err != nil {
		return invalid("%s is refused: %v", u.archive, err)
	}
	if mode.IsDir() || clean == "" {
		return nil
	}
	if !mode.IsRegular() {
		return invalid("%s is refused: %q is a link or a device, not a file; pack the file itself", u.archive, name)
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	return u.into.Put(clean, r)
}

// count limits what is read through it, as a ratio to the size of the archive.
func (u *unpacker) count(r io.Reader) io.Reader { return &ratioReader{u, r} }

type ratioReader struct {
	u *unpacker
	r io.Reader
}

func (c *ratioReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.u.unpacked += int64(n)
	l := c.u.into.limits
	if c.u.unpacked > l.RatioFrom && c.u.unpacked > l.Ratio*c.u.packed {
		return n, tooLarge("%s unpacks to more than %d times its size: it is refused as a zip bomb; "+
			"unpack it by hand if it is none", c.u.archive, l.Ratio)
	}
	return n, err
}
