package staging

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"nereid/app/console/api"
	"nereid/app/console/rest"
)

func newArea(t *testing.T, l Limits) *Area {
	t.Helper()
	a, err := NewArea(filepath.Join(t.TempDir(), "area"), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Remove(); err != nil {
			t.Errorf("Remove: %v", err)
		}
	})
	return a
}

func put(t *testing.T, a *Area, files ...string) {
	t.Helper()
	for _, f := range files {
		if err := a.Put(f, strings.NewReader("content of "+f)); err != nil {
			t.Fatalf("Put(%q): %v", f, err)
		}
	}
}

type entry struct {
	name string
	mode os.FileMode
	body string
}

func zipped(t testing.TB, entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func tarred(t testing.TB, headers ...*tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 3
		}
		h.Mode = 0o644
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, "abc"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func paths(files []api.File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Path)
	}
	return out
}

// arrangeOne returns the only model of what came in.
func arrangeOne(a *Area, source string) (Layout, error) {
	all, err := a.Arrange(source)
	if err != nil || len(all) != 1 {
		return Layout{}, cmp.Or(err, fmt.Errorf("%d models", len(all)))
	}
	return all[0], nil
}

func TestArrange(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		put          []string
		want         []string
		kind         api.ImportKind
		model        string
		versions     []string
	}{
		{name: "one ONNX file", source: "Res Net (50).onnx", put: []string{"Res Net (50).onnx"},
			want: []string{"1/model.onnx"}, kind: api.ImportONNX, model: "Res_Net__50", versions: []string{"1"}},
		{name: "ONNX file with external data", put: []string{"big.onnx", "big.onnx.data"},
			want: []string{"1/big.onnx.data",
				"1/model.onnx"}, kind: api.ImportONNX, model: "big", versions: []string{"1"}},
		{name: "an ONNX file called model", source: "model.onnx", put: []string{"model.onnx"},
			want: []string{"1/model.onnx"}, kind: api.ImportONNX, model: "model", versions: []string{"1"}},
		{name: "a model folder", source: "digits", put: []string{"digits/config.pbtxt", "digits/labels.txt",
			"digits/1/model.onnx", "digits/10/model.onnx", "digits/2/model.onnx"},
			want: []string{"1/model.onnx", "10/model.onnx", "2/model.onnx", "config.pbtxt",
				"labels.txt"}, kind: api.ImportFolder, model: "digits", versions: []string{"1", "2", "10"}},
		{name: "a model folder in folders", put: []string{"a/b/m/1/model.onnx", "a/b/m/.DS_Store"},
			want: []string{"1/model.onnx"}, kind: api.ImportFolder, model: "m", versions: []string{"1"}},
		{name: "only version folders", source: "things", put: []string{"3/model.onnx"},
			want: []string{"3/model.onnx"}, kind: api.ImportFolder, model: "things", versions: []string{"3"}},
		{name: "a folder with a loose model", put: []string{"net/x.onnx", "net/labels.txt", "net/vocab.json"},
			want: []string{"1/model.onnx", "1/vocab.json",
				"labels.txt"}, kind: api.ImportFolder, model: "net", versions: []string{"1"}},
		{name: "an ensemble: configuration only", put: []string{"ens/config.pbtxt"},
			want: []string{"config.pbtxt"}, kind: api.ImportFolder, model: "ens", versions: []string{"1"}},
		{name: "model.onnx as a folder", put: []string{"big/1/model.onnx/model.onnx", "big/1/model.onnx/weights"},
			want: []string{"1/model.onnx/model.onnx",
				"1/model.onnx/weights"}, kind: api.ImportFolder, model: "big", versions: []string{"1"}},
		{name: "two ONNX files, one the model", put: []string{"m/model.onnx", "m/other.onnx"},
			want: []string{"1/model.onnx", "1/other.onnx"}, kind: api.ImportFolder, model: "m",
			versions: []string{"1"}},
		{name: "a Python model", put: []string{"py/config.pbtxt", "py/1/model.py", "py/1/w.pt"},
			want: []string{"1/model.py", "1/w.pt",
				"config.pbtxt"}, kind: api.ImportFolder, model: "py", versions: []string{"1"}},
		{name: "a SavedModel", put: []string{"sm/saved_model.pb", "sm/variables/variables.index"},
			want: []string{"1/model.savedmodel/saved_model.pb",
				"1/model.savedmodel/variables/variables.index"}, kind: api.ImportFolder, model: "sm",
			versions: []string{"1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newArea(t, Limits{})
			put(t, a, tt.put...)
			for round := range 2 { // it can be repeated
				l, err := arrangeOne(a, tt.source)
				if err != nil {
					t.Fatalf("Arrange: %v", err)
				}
				if got := paths(l.Files); !slices.Equal(got, tt.want) || l.Kind != tt.kind || l.Name != tt.model ||
					!slices.Equal(l.Versions, tt.versions) {
					t.Errorf("round %d: Arrange = %v, %q, %q, versions %v; want %v, %q, %q, %v", round,
						got, l.Kind, l.Name, l.Versions, tt.want, tt.kind, tt.model, tt.versions)
				}
			}
		})
	}
}

func TestArrangeArchives(t *testing.T) {
	zip1 := zipped(t, entry{name: "net/", mode: os.ModeDir | 0o755}, entry{name: "net/1/model.onnx", body: "x"},
		entry{name: "__MACOSX/net/._x", body: "y"})
	tar1 := tarred(t, &tar.Header{Name: "net/1/model.onnx", Typeflag: tar.TypeReg})
	loose := zipped(t, entry{name: "squeeze.onnx", body: "x"})
	for _, tt := range []struct{ name, file, body, model string }{
		{"zip of a folder", "download.zip", zip1, "net"},
		{"tar.gz of a folder", "download.tar.gz", tar1, "net"},
		{"zip of one file", "download.zip", loose, "squeeze"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newArea(t, Limits{})
			if err := a.Put(tt.file, strings.NewReader(tt.body)); err != nil {
				t.Fatal(err)
			}
			l, err := arrangeOne(a, tt.file)
			if err != nil || l.Kind != api.ImportZip || l.Name != tt.model ||
				!slices.Equal(paths(l.Files), []string{"1/model.onnx"}) {
				t.Errorf("Arrange = %+v, %v; want an archive of %s with 1/model.onnx", l, err, tt.model)
			}
			if _, err := arrangeOne(a, tt.file); err != nil {
				t.Errorf("Arrange again: %v", err)
			}
		})
	}
}

func TestArrangeRefuses(t *testing.T) {
	bomb := zipped(t, entry{name: "m/1/model.onnx", body: strings.Repeat("\x00", 4<<20)})
	many := make([]entry, 60)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("d%d/", i), mode: os.ModeDir | 0o755}
	}
	lying := []byte(zipped(t, entry{name: "m/1/model.onnx", body: strings.Repeat("\x00", 1<<20)}))
	// Make both headers claim ten bytes: local at offset 22, central before its 46+name bytes.
	central := bytes.Index(lying, []byte("PK\x01\x02"))
	copy(lying[central+24:], []byte{10, 0, 0, 0})
	for _, tt := range []struct {
		name string
		file string
		body string
		want string
		code api.Code
	}{
		{"nothing", "", "", "nothing was uploaded", api.CodeInvalid},
		{"no model", "readme.txt", "hello", "no model was found in readme.txt", api.CodeInvalid},
		{"B9 climbs out", "a.zip", zipped(t, entry{name: "../evil.onnx", body: "x"}), `".."`, api.CodeInvalid},
		{"B9 climbs out later", "a.zip", zipped(t, entry{name: "m/../../evil.onnx", body: "x"}), `".."`,
			api.CodeInvalid},
		{"B9 absolute", "a.zip", zipped(t, entry{name: "/etc/evil.onnx", body: "x"}), "absolute", api.CodeInvalid},
		{"B9 a drive", "a.zip", zipped(t, entry{name: "C:/evil.onnx", body: "x"}), "absolute", api.CodeInvalid},
		{"B9 backslashes", "a.zip", zipped(t, entry{name: `..\evil.onnx`, body: "x"}), "backslash", api.CodeInvalid},
		{"B9 a link", "a.zip", zipped(t, entry{name: "m/1/model.onnx", mode: os.ModeSymlink | 0o777,
			body: "/etc/passwd"}), "link or a device", api.CodeInvalid},
		{"B9 a device", "a.zip", zipped(t, entry{name: "m/1/model.onnx", mode: os.ModeDevice | 0o777}),
			"link or a device", api.CodeInvalid},
		{"B9 a link in a tar", "a.tgz", tarred(t, &tar.Header{Name: "m/1/model.onnx", Typeflag: tar.TypeSymlink,
			Linkname: "/etc/passwd"}), "link or a device", api.CodeInvalid},
		{"B9 a hard link in a tar", "a.tgz", tarred(t, &tar.Header{Name: "m/1/model.onnx", Typeflag: tar.TypeLink,
			Linkname: "/etc/passwd"}), "link or a device", api.CodeInvalid},
		{"B9 a pipe in a tar", "a.tgz", tarred(t, &tar.Header{Name: "m/1/p", Typeflag: tar.TypeFifo}),
			"link or a device", api.CodeInvalid},
		{"B9 climbs out of a tar", "a.tgz", tarred(t, &tar.Header{Name: "../x", Typeflag: tar.TypeReg}), `".."`,
			api.CodeInvalid},
		{"B10 a zip bomb", "a.zip", bomb, "zip bomb", api.CodeTooLarge},
		{"B10 a zip that lies about sizes", "a.zip", string(lying), "cannot be unpacked", api.CodeInvalid},
		{"B9 too many entries", "a.zip", zipped(t, many...), "entries", api.CodeTooLarge},
		{"B9 upper and lower case", "a.zip", zipped(t, entry{name: "m/1/model.onnx"}, entry{name: "m/1/Model.onnx"}),
			"upper and lower case", api.CodeInvalid},
		{"B9 upper and lower case of a folder", "a.zip", zipped(t, entry{name: "m/1/model.onnx"},
			entry{name: "M/config.pbtxt"}), "upper and lower case", api.CodeInvalid},
		{"B9 file and folder", "a.zip", zipped(t, entry{name: "m/1", body: "x"}, entry{name: "m/1/model.onnx"}),
			"file and a folder", api.CodeInvalid},
		{"B10 a zip in a zip", "a.zip", zipped(t,
			entry{name: "b.zip", body: zipped(t, entry{name: "m/1/model.onnx"})}), "no model was found",
			api.CodeInvalid},
		{"no zip at all", "a.zip", "hello", "cannot be unpacked", api.CodeInvalid},
		{"two models", "a.zip", zipped(t, entry{name: "x.onnx"}, entry{name: "y.onnx"}),
			"several model files (x.onnx, y.onnx)", api.CodeInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newArea(t, Limits{Files: 10, Bytes: 8 << 20, RatioFrom: 1 << 20})
			if tt.file != "" {
				if err := a.Put(tt.file, strings.NewReader(tt.body)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := arrangeOne(a, tt.file)
			var e *rest.Error
			if !errors.As(err, &e) || e.Code != tt.code || !strings.Contains(e.Text, tt.want) {
				t.Errorf("Arrange = %v, want code %s and %q", err, tt.code, tt.want)
			}
			outside, _ := filepath.Glob(filepath.Join(filepath.Dir(a.dir), "*"))
			if len(outside) != 1 {
				t.Errorf("files outside the area: %v", outside)
			}
		})
	}
}

func TestPutRefuses(t *testing.T) {
	a := newArea(t, Limits{Files: 3, Bytes: 100})
	put(t, a, "m/one", "m/two")
	for _, tt := range []struct {
		name, path, body, want string
	}{
		{"too large", "m/big", strings.Repeat("x", 200), "more than 100 bytes"},
		{"climbs out", "../x", "", `".."`},
		{"NUL", "a\x00b", "", "control characters"},
		{"not UTF-8", "a\xff", "", "not UTF-8"},
		{"empty part", "a//b", "", "empty"},
		{"dot", "./a", "", `"."`},
		{"very long", strings.Repeat("a/", 600), "", "bytes"},
		{"very long part", strings.Repeat("a", 256), "", "bytes"},
		{"very deep", strings.Repeat("a/", 40) + "b", "", "folders deep"},
		{"case", "M/one", "", "upper and lower case"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := a.Put(tt.path, strings.NewReader(tt.body))
			var e *rest.Error
			if !errors.As(err, &e) || !strings.Contains(e.Text, tt.want) {
				t.Errorf("Put(%.20q) = %v, want %q", tt.path, err, tt.want)
			}
		})
	}
	put(t, a, "m/one", "m/three") // a replacement, and the last one that fits
	if err := a.Put("m/four", strings.NewReader("")); err == nil ||
		!strings.Contains(err.Error(), "more than 3 files") {
		t.Errorf("the fourth file: %v", err)
	}
	if names, _ := filepath.Glob(a.dir + "/.part*"); len(names) != 0 {
		t.Errorf("parts left over: %v", names)
	}
	if got := paths(a.Files()); !slices.Equal(got, []string{"m/one", "m/three", "m/two"}) {
		t.Errorf("Files = %v", got)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	var e *rest.Error
	if err := a.Put("m/one", strings.NewReader("")); !errors.As(err, &e) || e.Code != api.CodeConflict {
		t.Errorf("Put after Remove = %v, want a conflict", err)
	}
}

func TestConcurrentPuts(t *testing.T) {
	a := newArea(t, Limits{Bytes: 1 << 20})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := a.Put(fmt.Sprintf("m/%d/%d", i%5, i), strings.NewReader("12345")); err != nil {
				t.Errorf("Put: %v", err)
			}
		}()
	}
	wg.Wait()
	if len(a.Files()) != 50 || a.bytes != 250 {
		t.Errorf("%d files, %d bytes; want 50 and 250", len(a.Files()), a.bytes)
	}
}

// A file that is still coming when the Area goes away is an error, and leaves nothing.
func TestRemoveDuringAnUpload(t *testing.T) {
	a := newArea(t, Limits{})
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- a.Put("m/1/model.onnx", r) }()
	if _, err := w.Write([]byte("begun")); err != nil { // it is being written
		t.Fatal(err)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var e *rest.Error
	if err := <-done; !errors.As(err, &e) || e.Code != api.CodeConflict {
		t.Errorf("Put = %v, want a conflict", err)
	}
	if _, err := os.Stat(a.dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestCopyFrom(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("secret")
	write("x/net.onnx")
	write("x/net.onnx.data")
	write("x/unrelated.bin")
	write("good/1/model.onnx")
	write("good/.git/config")
	write("bad/1/other")
	write("inner/1/real.onnx")
	for link, to := range map[string]string{"bad/1/model.onnx": "../../secret", "inner/1/model.onnx": "real.onnx"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	write("pipe/1/model.onnx")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe/1/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, src string
		want      []string
		err       string
	}{
		{"a file and its data", "x/net.onnx", []string{"net.onnx", "net.onnx.data"}, ""},
		{"a folder", "good", []string{"good/1/model.onnx"}, ""},
		{"a link inside", "inner", []string{"inner/1/model.onnx", "inner/1/real.onnx"}, ""},
		{"a link out", "bad", nil, "1/model.onnx"},
		{"a pipe", "pipe", nil, "not a regular file"},
		{"nothing there", "nope", nil, "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newArea(t, Limits{})
			err := a.CopyFrom(filepath.Join(dir, tt.src))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("CopyFrom = %v, want %q", err, tt.err)
				}
				return
			}
			if got := paths(a.Files()); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("CopyFrom = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func FuzzCleanPath(f *testing.F) {
	for _, s := range []string{"a/b", "../x", "/etc", `..\x`, "a/./b", ".hidden/x", "C:x", "a\x00", "é/模型.onnx",
		strings.Repeat("a/", 500)} {
		f.Add(s)
	}
	base := f.TempDir()
	f.Fuzz(func(t *testing.T, s string) {
		clean, err := CleanPath(s)
		if err != nil || clean == "" {
			return
		}
		full := filepath.Join(base, filepath.FromSlash(clean))
		if rel, err := filepath.Rel(base, full); err != nil || strings.HasPrefix(rel, "..") || rel == "." {
			t.Errorf("CleanPath(%q) = %q leads to %q", s, clean, full)
		}
		if again, err := CleanPath(clean); err != nil || again != clean {
			t.Errorf("CleanPath(%q) = %q, and of that %q, %v", s, clean, again, err)
		}
	})
}
