package python

import (
	"archive/tar"
	"bytes"
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
				err := unpackArchive(path, filepath.Join(folder, "env"))
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
