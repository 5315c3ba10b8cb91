package onnxruntime

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/klauspost/compress/zstd"

	"nereid/engine/system/glob"
	"nereid/engine/system/replace"
)

// embedded contains the copy of libonnxruntime: lib/libonnxruntime.so.zst and lib/libonnxruntime.version. "make build"
// puts them there. A program without a copy has only lib/.gitkeep.
//
//go:embed all:lib
var embedded embed.FS

const (
	embeddedLibrary = "lib/libonnxruntime.so.zst"
	embeddedVersion = "lib/libonnxruntime.version"
	libraryName     = "libonnxruntime.so"
)

// findLibrary returns the path of the library to open, or its bare name for the system's library path.
func (o *Options) findLibrary(files fs.FS) (string, error) {
	if o.Library != "" {
		info, err := os.Stat(o.Library)
		if err != nil {
			return "", fmt.Errorf(
				"onnxruntime library %s: %w; correct the path, or leave it out to use the copy inside this program",
				o.Library, err)
		}
		if !info.IsDir() {
			return filepath.Abs(o.Library)
		}
		path, err := inFolder(o.Library)
		if path == "" && err == nil {
			err = fmt.Errorf("folder %s has no %s, nor has %s in it; name the library itself, or run pip install "+
				"--target=%s onnxruntime-gpu",
				o.Library, libraryName, filepath.Join("onnxruntime", "capi"), o.Library)
		}
		return path, err
	}
	if o.RuntimeFolder != "" {
		if path, err := inFolder(o.RuntimeFolder); path != "" || err != nil {
			return path, err
		}
	}
	path, err := unpack(files, o.CacheFolder)
	if err == nil {
		return filepath.Abs(path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	folders := []string{"/usr/lib/nereid"}
	if exe, err := os.Executable(); err == nil {
		if exe, err = filepath.EvalSymlinks(exe); err == nil {
			folders = append([]string{filepath.Join(filepath.Dir(exe), "..", "lib", "nereid")}, folders...)
		}
	}
	for _, folder := range folders {
		path := filepath.Join(folder, libraryName)
		if _, err := os.Stat(path); err == nil {
			return filepath.Abs(path)
		}
	}
	return libraryName, nil
}

// inFolder returns the library in a folder or in the Python package onnxruntime inside it, "" if there is none. Several
// versions are an error.
func inFolder(folder string) (string, error) {
	for _, f := range []string{folder, filepath.Join(folder, "onnxruntime", "capi")} {
		plain := filepath.Join(f, libraryName)
		if _, err := os.Stat(plain); err == nil {
			return filepath.Abs(plain)
		}
		found := glob.In(f, libraryName+".*") // libonnxruntime.so.1.31.1
		if len(found) > 1 {
			return "", fmt.Errorf(
				"several onnxruntime libraries in %s: %s; leave one, or name it with --onnxruntime-library",
				f, strings.Join(found, ", "))
		}
		if len(found) == 1 {
			return filepath.Abs(found[0])
		}
	}
	return "", nil
}

// embeddedVersionOr returns the version of the copy inside the program, or the given version if there is no copy.
func embeddedVersionOr(version string) string {
	v, err := fs.ReadFile(embedded, embeddedVersion)
	if err != nil {
		return version
	}
	return strings.TrimSpace(string(v))
}

// unpack writes the library inside the program to the folder, unless the folder has an intact copy, and returns its
// path. The error is fs.ErrNotExist if the program has no copy.
func unpack(files fs.FS, folder string) (string, error) {
	packed, err := files.Open(embeddedLibrary) // it is read in parts: a copy would stay in memory for a while
	if err != nil {
		return "", err
	}
	defer packed.Close()
	version, err := fs.ReadFile(files, embeddedVersion)
	if err != nil {
		return "", err
	}
	if folder == "" {
		if folder, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("no folder to unpack onnxruntime into: %w", err)
		}
		folder = filepath.Join(folder, "nereid")
	}
	// The name contains the digest of the packed bytes, so that builds with other libraries do not share the file.
	digest := sha256.New()
	if _, err := io.Copy(digest, packed); err != nil {
		return "", err
	}
	path := filepath.Join(folder, fmt.Sprintf("libonnxruntime-%s-%x.so", strings.TrimSpace(string(version)),
		digest.Sum(nil)[:8]))
	if intact(path) {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("unpack onnxruntime: %w", err)
	}
	if err := write(path, files); err != nil {
		return "", fmt.Errorf("unpack onnxruntime into %s: %w", folder, err)
	}
	debug.FreeOSMemory() // else a server is larger after its first start than after others
	return path, nil
}

// sumName returns the name of the file with the SHA-256 of an unpacked library, in hexadecimal.
func sumName(path string) string { return path + ".sha256" }

// intact reports whether an unpacked library is unchanged.
func intact(path string) bool {
	want, err := os.ReadFile(sumName(path))
	if err != nil {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false
	}
	return hex.EncodeToString(h.Sum(nil)) == strings.TrimSpace(string(want))
}

// write decompresses a library and writes it and its checksum. The decompressor verifies the packed bytes. The library
// is never whole in memory. After a loss of power the file may be damaged: intact notices that.
func write(path string, files fs.FS) error {
	packed, err := files.Open(embeddedLibrary)
	if err != nil {
		return err
	}
	defer packed.Close()
	d, err := zstd.NewReader(packed)
	if err != nil {
		return err
	}
	defer d.Close()
	sum := sha256.New()
	if err := replace.File(path, io.TeeReader(unpacker{d}, sum), 0o700); err != nil {
		return err
	}
	return replace.File(sumName(path), strings.NewReader(hex.EncodeToString(sum.Sum(nil))+"\n"), 0o600)
}

// unpacker says what an error of its Decoder means.
type unpacker struct{ *zstd.Decoder }

func (u unpacker) Read(p []byte) (int, error) {
	n, err := u.Decoder.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the copy inside this program is damaged: %w", err)
	}
	return n, err
}
