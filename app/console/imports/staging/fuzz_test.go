package staging

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzUnpack: an archive gives files inside the area, within its limits, or an error.
func FuzzUnpack(f *testing.F) {
	f.Add(false, []byte(zipped(f, entry{name: "m/1/model.onnx", body: "abc"},
		entry{name: "m/config.pbtxt", body: "x"})))
	f.Add(false, []byte(zipped(f, entry{name: "../x", body: "abc"})))
	f.Add(false, []byte(zipped(f, entry{name: "a", body: strings.Repeat("\x00", 1<<16)})))
	f.Add(true, []byte(tarred(f, &tar.Header{Name: "m/1/x", Typeflag: tar.TypeReg},
		&tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"})))
	f.Add(true, []byte("not an archive"))
	limits := Limits{Bytes: 1 << 20, Files: 20, Ratio: 50, RatioFrom: 1 << 10}
	f.Fuzz(func(t *testing.T, isTar bool, data []byte) {
		dir := t.TempDir()
		a, err := NewArea(filepath.Join(dir, "area"), limits)
		if err != nil {
			t.Fatal(err)
		}
		defer a.root.Close()
		name := "x.zip"
		if isTar {
			name = "x.tgz"
		}
		if err := a.Put(name, bytes.NewReader(data)); err != nil {
			return
		}
		into, err := a.unpack(name)
		if err == nil {
			defer into.root.Close()
			total := int64(0)
			for _, file := range into.Files() {
				total += file.SizeBytes
			}
			if len(into.Files()) > limits.Files || total > limits.Bytes {
				t.Errorf("%d files of %d bytes come out", len(into.Files()), total)
			}
		}
		if outside, _ := os.ReadDir(dir); len(outside) != 1 {
			t.Errorf("%d things stand beside the area", len(outside))
		}
	})
}
