package code

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"nereid/app/console/folders"
)

const headSize = 512 // bytes by which a kind of file is recognized; a tar has its mark at 257

// inspect describes a file whose content is code; "" for other files.
func inspect(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	return content(f, info.Size()), nil
}

// content describes the code in a file of this size; "" if there is none. It reads the first bytes, and the directory
// of a zip.
func content(f io.ReaderAt, size int64) string {
	head := make([]byte, headSize)
	n, _ := f.ReadAt(head, 0) // what cannot be read is not loaded either
	head = head[:n]
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06")) {
		return inZip(f, size)
	}
	if why := program(head); why != "" {
		return why
	}
	if plain := decompress(head, io.NewSectionReader(f, 0, size)); program(plain) != "" {
		return "compressed: " + program(plain)
	}
	return ""
}

// program describes a file that begins with head and can run; "" for others.
func program(head []byte) string {
	begins := func(all ...string) bool {
		for _, s := range all {
			if bytes.HasPrefix(head, []byte(s)) {
				return true
			}
		}
		return false
	}
	switch {
	case begins("\x7fELF"):
		return "a native library or program"
	case begins("MZ"):
		return "a library or program for Windows"
	case begins("\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe"):
		return "a library or program for macOS"
	case begins("#!"):
		return "a script"
	case len(head) > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return "a pickle: unpacking it can run code"
	case len(head) >= 262 && string(head[257:262]) == "ustar", begins("\xfd7zXZ\x00"):
		return "an archive, which can have programs in it"
	}
	return ""
}

// decompress returns the first bytes of a compressed file; nil for other files and for damaged ones.
func decompress(head []byte, f io.Reader) []byte {
	var r io.Reader
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil
		}
		r = z
	case bytes.HasPrefix(head, []byte("BZh")):
		r = bzip2.NewReader(f)
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil
		}
		defer z.Close()
		r = z
	default:
		return nil
	}
	plain := make([]byte, headSize)
	n, _ := io.ReadFull(r, plain) // a short one has fewer
	return plain[:n]
}

// inZip describes the code in a zip; "" if there is none.
func inZip(f io.ReaderAt, size int64) string {
	z, err := folders.OpenZip(f, size)
	if errors.Is(err, folders.ErrZipTooLarge) {
		return "an archive with too many entries to look at"
	}
	if err != nil {
		return ""
	}
	for _, e := range z.File {
		why := runsByName(e.Name)
		if why == "" && !strings.HasSuffix(e.Name, "/") && e.Mode().IsRegular() && e.Mode().Perm()&0o111 != 0 {
			why = "a program"
		}
		if why != "" {
			return "an archive with " + e.Name + ", " + why
		}
	}
	return ""
}
