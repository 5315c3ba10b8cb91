package python

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/zstd"

	"nereid/engine/status"
)

// tarOf returns an archive with these entries. The content of each file is its name.
func tarOf(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if h.Typeflag == tar.TypeReg {
			h.Size, h.Mode = int64(len(h.Name)), 0o644
		}
		err := w.WriteHeader(&h)
		if err == nil && h.Typeflag == tar.TypeReg {
			_, err = w.Write([]byte(h.Name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstdOf(t testing.TB, b []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(b, nil)
}

func TestUnpackArchive(t *testing.T) {
	file := tar.Header{Name: "bin/python3", Typeflag: tar.TypeReg}
	large := bytes.Repeat([]byte("no end of what follows an archive. "), 1<<18)
	for _, tt := range []struct {
		name    string
		archive []byte
		text    string // of the error; "": bin/python3 is unpacked
	}{
		{name: "as it is", archive: tarOf(t, file)},
		{name: "with what git and pax say of the whole", archive: tarOf(t, tar.Header{Typeflag: tar.TypeXGlobalHeader,
			PAXRecords: map[string]string{"comment": "1234"}}, file)},
		{name: "zstd", archive: zstdOf(t, tarOf(t, file))},
		{name: "zstd, with more behind the archive", archive: zstdOf(t, append(tarOf(t, file), large...))},
		{name: "zstd, cut off", archive: zstdOf(t, tarOf(t, file))[:60],
			text: "is not an archive that can be unpacked"},
		{name: "xz", archive: []byte("\xfd7zXZ\x00" + strings.Repeat("x", 2000)), text: "gzip, bzip2 or zstd"},
		{name: "a device", archive: tarOf(t, tar.Header{Name: "null", Typeflag: tar.TypeChar}),
			text: "neither a file nor a folder nor a link"},
		{name: "a link out of it", archive: tarOf(t, tar.Header{Name: "bin", Linkname: "/tmp",
			Typeflag: tar.TypeSymlink}, file), text: "bin/python3"},
		{name: "a second name of what lies outside", archive: tarOf(t, tar.Header{Name: "hosts",
			Linkname: "../../../etc/hosts", Typeflag: tar.TypeLink}), text: "hosts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "env.tar")
			if err := os.WriteFile(path, tt.archive, 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { // it fails if goroutines are left
				err := unpackArchive(t.Context(), path, filepath.Join(folder, "env"))
				if tt.text != "" {
					if status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), tt.text) {
						t.Errorf("unpackArchive = %v, want an invalid argument with %q", err, tt.text)
					}
					return
				}
				text, rerr := os.ReadFile(filepath.Join(folder, "env", "bin", "python3"))
				if err != nil || rerr != nil || string(text) != "bin/python3" {
					t.Errorf("unpackArchive = %v; the file is %q, %v", err, text, rerr)
				}
			})
		})
	}
}

// TestUnpackLimits_B10: an archive that is small and unpacks to gigabytes is refused before it fills the disk.
func TestUnpackLimits_B10(t *testing.T) {
	zeros := func(n int64) []byte { // a tar of one file of n zero bytes, compressed
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		w := tar.NewWriter(z)
		err = w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: n, Mode: 0o644})
		part := make([]byte, 1<<20)
		for left := n; left > 0 && err == nil; left -= int64(len(part)) {
			_, err = w.Write(part)
		}
		if err = errors.Join(err, w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		archive []byte
		text    string
	}{
		{"a bomb", t.Context(), zeros(128 << 20), "200 times its size"},
		{"a size that is absurd", t.Context(), tarOf(t, tar.Header{Name: "x", Typeflag: tar.TypeChar,
			Size: 1 << 60}), "unpacks to more than 68719476736 bytes"},
		{"a load that is given up", cancelled, tarOf(t, tar.Header{Name: "x", Typeflag: tar.TypeReg}), "canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "env.tar")
			if err := os.WriteFile(path, tt.archive, 0o600); err != nil {
				t.Fatal(err)
			}
			err := unpackArchive(tt.ctx, path, filepath.Join(folder, "env"))
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("unpackArchive = %v, want %q", err, tt.text)
			}
			if info, err := os.Stat(filepath.Join(folder, "env", "zeros")); err == nil && info.Size() > 0 {
				t.Errorf("%d bytes were written", info.Size())
			}
		})
	}
}

// FuzzUnpackArchive: an archive never writes outside its folder.
func FuzzUnpackArchive(f *testing.F) {
	f.Add(tarOf(f, tar.Header{Name: "bin/python3", Typeflag: tar.TypeReg}))
	f.Add(tarOf(f, tar.Header{Name: "a", Linkname: "/tmp", Typeflag: tar.TypeSymlink},
		tar.Header{Name: "a/b", Typeflag: tar.TypeReg}))
	f.Add(zstdOf(f, tarOf(f, tar.Header{Name: "../x", Typeflag: tar.TypeReg})))
	f.Fuzz(func(t *testing.T, b []byte) {
		folder := t.TempDir()
		path := filepath.Join(folder, "env.tar")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = unpackArchive(t.Context(), path, filepath.Join(folder, "env"))
		if entries, err := os.ReadDir(folder); err != nil || len(entries) > 2 {
			t.Errorf("beside the archive and its folder there is more: %v, %v", entries, err)
		}
	})
}
