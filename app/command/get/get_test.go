package get

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nereid/app/command"
	"nereid/app/console/api"
	"nereid/app/download"
)

// run runs nereid get with a repository, and returns the exit status and all that it printed.
func run(ctx context.Context, repository string, args ...string) (status int, text string) {
	var out bytes.Buffer
	e := &command.Env{Program: "nereid", Lookup: os.LookupEnv, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}
	status = Run(ctx, e, append([]string{"-r", repository}, args...))
	return status, out.String()
}

// entries lists a folder, hidden files too.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// serve serves one file. f may answer in its place.
func serve(t *testing.T, content []byte, f func(w http.ResponseWriter, r *http.Request) (done bool)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		if f == nil || !f(w, r) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// The server refuses a model whose configuration has another name than its folder.
func TestTheNameInTheConfigurationIsThatOfTheModel(t *testing.T) {
	const rest = "backend: \"onnxruntime\"\n# name: \"mlp\"\n"
	named := map[string][]byte{"config.pbtxt": []byte("# by hand\nname: \"mlp\" " + rest),
		"1/model.onnx": []byte("graph"), "configs/small.pbtxt": []byte("name: 'mlp'\n" + rest)}
	ensemble := map[string][]byte{"config.pbtxt": []byte(`name: "all" platform: "ensemble" ensemble_scheduling { ` +
		`step [ { model_name: "all_1" } ] }`), "1/.keep": nil}
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		args  []string
		want  map[string]string
	}{
		{"--name", named, []string{"--name=renamed"}, map[string]string{
			"renamed/config.pbtxt":        "# by hand\nname: \"renamed\" " + rest,
			"renamed/configs/small.pbtxt": "name: 'renamed'\n" + rest}},
		{"the author's", named, nil, map[string]string{"mlp/config.pbtxt": "# by hand\nname: \"mlp\" " + rest}},
		{"an ensemble", ensemble, []string{"--name=renamed"}, map[string]string{
			"renamed/config.pbtxt": `name: "renamed" platform: "ensemble" ensemble_scheduling { ` +
				`step [ { model_name: "all_1" } ] }`}},
		{"none", map[string][]byte{"config.pbtxt": []byte(rest), "1/model.onnx": []byte("graph")},
			[]string{"--name=renamed"}, map[string]string{"renamed/config.pbtxt": rest}},
		{"not one that a model can have", map[string][]byte{"x/config.pbtxt": []byte(`name: "a/b"`),
			"x/1/model.onnx": []byte("graph")}, nil, map[string]string{"x/config.pbtxt": `name: "x"`}},
		{"in a repository", map[string][]byte{"s/x/config.pbtxt": []byte(`name: "a"`), "s/x/1/model.onnx": []byte("x"),
			"s/y/1/model.onnx": []byte("y")}, nil, map[string]string{"x/config.pbtxt": `name: "x"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from, dir := filepath.Join(t.TempDir(), "download.zip"), t.TempDir()
			if err := os.WriteFile(from, archive(t, tt.files), 0o600); err != nil {
				t.Fatal(err)
			}
			if status, text := run(t.Context(), dir, append(tt.args, from)...); status != 0 {
				t.Fatal(text)
			}
			for path, want := range tt.want {
				if b, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(b) != want {
					t.Errorf("%s is %q, %v; want %q", path, b, err, want)
				}
			}
		})
	}
}

func TestADownloadThatIsCutFiveTimesIsComplete(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 100<<20/16)
	copy(content[50<<20:], "in the middle")
	var cuts atomic.Int32
	url := serve(t, content, func(w http.ResponseWriter, r *http.Request) bool {
		if cuts.Add(1) > 5 {
			return false
		}
		http.ServeContent(&cut{w, 15 << 20}, r, "", time.Time{}, bytes.NewReader(content))
		return true
	})
	dir, sum := t.TempDir(), sha256.Sum256(content)
	status, text := run(t.Context(), dir, url+"/big.onnx", "--sha256="+hex.EncodeToString(sum[:]), "--json")
	if status != 0 {
		t.Fatal(text)
	}
	got, err := os.ReadFile(filepath.Join(dir, "big", "1", "model.onnx"))
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes of %d arrived unchanged: %v", len(got), len(content), err)
	}
	if n := cuts.Load(); n != 6 {
		t.Errorf("%d requests, want 6", n)
	}
	var p, kept provenance
	b, err := os.ReadFile(filepath.Join(dir, "big", "provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	if json.Unmarshal([]byte(text), &p) != nil || json.Unmarshal(b, &kept) != nil || p != kept ||
		p.SHA256 != hex.EncodeToString(sum[:]) || p.From != url+"/big.onnx" || p.Bytes != int64(len(content)) {
		t.Errorf("printed %s, kept %s", text, b)
	}
	if names := entries(t, dir); !slices.Equal(names, []string{"big"}) {
		t.Errorf("the repository has %v", names)
	}
}

// cut ends the connection after some bytes.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(b)
}

func TestAFileThatChangesDuringADownloadIsReadFromItsStart(t *testing.T) {
	before, after := bytes.Repeat([]byte("a"), 1<<20), bytes.Repeat([]byte("b"), 1<<20)
	var n atomic.Int32
	url := serve(t, after, func(w http.ResponseWriter, r *http.Request) bool {
		if n.Add(1) > 1 {
			w.Header().Set("ETag", `"two"`)
			return false
		}
		http.ServeContent(&cut{w, 1 << 19}, r, "", time.Time{}, bytes.NewReader(before))
		return true
	})
	dir := t.TempDir()
	if status, text := run(t.Context(), dir, url+"/x.onnx"); status != 0 {
		t.Fatal(text)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "x", "1", "model.onnx")); err != nil || !bytes.Equal(b, after) {
		t.Errorf("the file is a mixture: %v", err)
	}
}

// archive returns a zip.
func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWhatIsRefusedLeavesNothing(t *testing.T) {
	code := archive(t, map[string][]byte{"m/1/model.py": []byte("class TritonPythonModel: pass\n")})
	bomb := archive(t, map[string][]byte{"m/1/model.onnx": make([]byte, 80<<20)})
	small := []byte("not really a model")
	for name, tt := range map[string]struct {
		content []byte
		file    string
		args    []string
		want    string
	}{
		"digest":     {small, "x.onnx", []string{"--sha256=" + strings.Repeat("0", 64)}, "not 0000"},
		"bomb":       {bomb, "m.zip", nil, "200 times"},
		"size":       {make([]byte, 3<<20), "x.onnx", []string{"--max-size=2"}, "it has 3145728 bytes"},
		"unpacked":   {bomb, "m.zip", []string{"--max-size=2"}, "2097152"},
		"code":       {code, "m.zip", nil, "1/model.py"},
		"taken":      {small, "there.onnx", nil, "is in"},
		"name":       {small, "x.onnx", []string{"--name=a/b"}, "a/b"},
		"no file":    {small, "", nil, "names no file"},
		"not a zip":  {small, "m.zip", nil, "m.zip"},
		"not found":  {nil, "missing.onnx", nil, "404 Not Found"},
		"other text": {small, "readme.txt", nil, "readme.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, tt.content, func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/missing.onnx" {
					http.NotFound(w, r)
					return true
				}
				return false
			})
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "there"), 0o755); err != nil {
				t.Fatal(err)
			}
			status, text := run(t.Context(), dir, append(tt.args, url+"/"+tt.file)...)
			if status == 0 || !strings.Contains(text, tt.want) {
				t.Errorf("status %d: %s\nwant %q", status, text, tt.want)
			}
			if names := entries(t, dir); !slices.Equal(names, []string{"there"}) {
				t.Errorf("the repository has %v", names)
			}
			if tt.file != "m.zip" || tt.args != nil || name == "bomb" || name == "not a zip" {
				return
			}
			if status, text := run(t.Context(), dir, url+"/m.zip", "--allow-code"); status != 0 {
				t.Errorf("with --allow-code: %s", text)
			}
		})
	}
}

func TestHTTPToOtherMachinesIsRefused(t *testing.T) {
	redirect := serve(t, nil, func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://example.invalid/x.onnx", http.StatusFound)
		return true
	})
	for _, url := range []string{"http://example.invalid/x.onnx", redirect + "/x.onnx"} {
		status, text := run(t.Context(), t.TempDir(), url)
		if status == 0 || !strings.Contains(text, "is not https") {
			t.Errorf("%s: status %d: %s", url, status, text)
		}
	}
}

// A server elsewhere could make this one send requests to services that trust this machine.
func TestRedirectsToThisMachineAreRefused_B12(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		refused  bool
	}{
		{"https://example.invalid/m.onnx", "http://127.0.0.1:8000/v2", true},
		{"https://example.invalid/m.onnx", "http://[::1]:8000/v2", true},
		{"https://example.invalid/m.onnx", "http://localhost/v2", true},
		{"https://example.invalid/m.onnx", "https://localhost:8443/v2", true},
		{"https://example.invalid/m.onnx", "http://169.254.169.254/latest/meta-data/", true},
		{"https://example.invalid/m.onnx", "file:///etc/passwd", true},
		{"https://example.invalid/m.onnx", "https://cdn.example.invalid/m.onnx", false},
		{"http://localhost:5000/m.onnx", "http://127.0.0.1:5001/m.onnx", false},
	} {
		t.Run("B12 "+tt.from+" to "+tt.to, func(t *testing.T) {
			from, err := http.NewRequest(http.MethodGet, tt.from, nil)
			if err != nil {
				t.Fatal(err)
			}
			to, err := http.NewRequest(http.MethodGet, tt.to, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := download.NewClient().CheckRedirect(to, []*http.Request{from}); (err != nil) != tt.refused {
				t.Errorf("CheckRedirect = %v, want a refusal: %t", err, tt.refused)
			}
		})
	}
}

func TestACancelledDownloadLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	url := serve(t, nil, func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "1000000")
		fmt.Fprint(w, "the beginning")
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		cancel()
		<-r.Context().Done()
		return true
	})
	dir := t.TempDir()
	status, text := run(ctx, dir, url+"/x.onnx")
	if status == 0 || !strings.Contains(text, "cancelled; nothing is left over") {
		t.Errorf("status %d: %s", status, text)
	}
	if names := entries(t, dir); len(names) > 0 {
		t.Errorf("the repository has %v", names)
	}
}

func TestAReplacedModelIsInTheTrash(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	for _, content := range []string{"first", "second"} {
		url := serve(t, []byte(content), nil)
		status, text := run(t.Context(), dir, url+"/x.onnx", "--replace", "--name=y", "--data-dir="+data)
		if status != 0 {
			t.Fatal(text)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "y", "1", "model.onnx")); err != nil || string(b) != content {
			t.Errorf("%q, %v, want %q", b, err, content)
		}
	}
	if names := entries(t, dir); !slices.Equal(names, []string{"y"}) {
		t.Errorf("the repository has %v", names)
	}
	kept, err := filepath.Glob(filepath.Join(data, "trash", "*", "model", "1", "model.onnx"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("the trash has %v, %v", kept, err)
	}
	if b, err := os.ReadFile(kept[0]); err != nil || string(b) != "first" {
		t.Errorf("the trash has %q, %v", b, err)
	}
	var item api.Trashed
	b, err := os.ReadFile(filepath.Join(data, "trash", filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(kept[0])))),
		"item.json"))
	if err != nil || json.Unmarshal(b, &item) != nil || item.Model != "y" || item.From != filepath.Join(dir, "y") {
		t.Errorf("it is restored to %+v, %v", item, err)
	}
}

// Without a place for the old model, it stays.
func TestAModelThatCannotBeKeptIsNotReplaced(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, content := range []string{"first", "second"} {
		url := serve(t, []byte(content), nil)
		status, text := run(t.Context(), dir, url+"/x.onnx", "--replace", "--data-dir="+data)
		if status != i || i == 1 && !strings.Contains(text, "cannot be moved to the trash") {
			t.Errorf("status %d: %s", status, text)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "x", "1", "model.onnx")); err != nil || string(b) != "first" {
		t.Errorf("%q, %v", b, err)
	}
	if names := entries(t, dir); !slices.Equal(names, []string{"x"}) {
		t.Errorf("the repository has %v", names)
	}
}

func TestWheelsWithoutTheModelAreExplained(t *testing.T) {
	two := map[string][]byte{"c/a.onnx": []byte("a"), "c/b.onnx": []byte("b"), "c/d/A.onnx": nil, "c/__init__.py": nil}
	for name, tt := range map[string]struct {
		files            map[string][]byte
		only, want, name string
	}{
		"none":    {map[string][]byte{"c/x.py": nil}, "", "has no ONNX file", ""},
		"other":   {two, "z.onnx", "has no file z.onnx; it has ", ""},
		"several": {two, "", "has several models, which cannot all be named x", "x"},
		"bomb":    {map[string][]byte{"c/x.onnx": make([]byte, 80<<20)}, "", "which are too many", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work, b := t.TempDir(), archive(t, tt.files)
			wheel := filepath.Join(work, "c.whl")
			if err := os.WriteFile(wheel, b, 0o600); err != nil {
				t.Fatal(err)
			}
			o := &getter{name: tt.name, maxMiB: 1 << 10, work: &workspace{dir: work}}
			if err := os.Mkdir(o.work.models(), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := o.unpackWheel(t.Context(), wheel, "c", tt.only, provenance{Bytes: int64(len(b))})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzPackageName: what reaches pip is no option, no path and no URL.
func FuzzPackageName(f *testing.F) {
	f.Add("magika==1.0")
	f.Fuzz(func(t *testing.T, s string) {
		if packageName.MatchString(s) && (s[0] == '-' || strings.ContainsAny(s, "/@ \\:\n")) {
			t.Errorf("%q passes", s)
		}
	})
}

func TestAnUnknownOptionIsNamedWhereverItStands(t *testing.T) {
	for _, args := range [][]string{{"--nosuch", "x.onnx"}, {"x.onnx", "--nosuch"}} {
		status, text := run(t.Context(), t.TempDir(), args...)
		const want = "unknown option -nosuch; nereid get --help lists the options"
		if status != 1 || !strings.Contains(text, want) {
			t.Errorf("nereid get %v: status %d, %q; want 1 and %q", args, status, text, want)
		}
	}
}
