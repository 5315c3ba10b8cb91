package cloud_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nereid/engine/repo"
	"nereid/engine/repo/cloud"
	"nereid/engine/status"
)

// open opens a repository below a path of the bucket, with its own transport.
func (s *storage) open(t *testing.T, path, cache string, w *wire) *cloud.Repository {
	t.Helper()
	r, err := cloud.Open(t.Context(), s.root+path, s.options(cache, w))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func (s *storage) options(cache string, w *wire) cloud.Options {
	o := cloud.Options{Cache: cache, Lookup: s.lookup, Log: slog.New(slog.DiscardHandler), Pause: time.Millisecond}
	if w != nil {
		o.Transport = w
	}
	return o
}

// scan scans a repository as the server does.
func scan(t *testing.T, r *cloud.Repository) map[string]*repo.Model {
	t.Helper()
	found, unread := repo.Scan(repo.Options{Roots: []string{"remote"}, Remotes: map[string]repo.Remote{"remote": r}})
	for _, err := range unread {
		t.Fatal(err)
	}
	return found
}

// fetch copies a whole model and returns its files.
func fetch(t *testing.T, m *repo.Model) map[string]string {
	t.Helper()
	if m == nil {
		t.Fatal("there is no such model")
	}
	if err := m.FetchShared(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, v := range m.Numbers() {
		if err := m.FetchVersion(t.Context(), v, nil); err != nil {
			t.Fatal(err)
		}
	}
	return files(t, m.Folder)
}

func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(folder, path)
		all[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func random(t *testing.T, n int) []byte {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStorages runs every case against a server of every kind.
func TestStorages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, s := range []struct {
		name  string
		start func(*testing.T) *storage
	}{
		{"A016 S3", startS3}, {"A017 Google Cloud Storage", startGCS}, {"A018 Azure", startAzure},
		{"A022 HDFS", startHDFS},
	} {
		t.Run(s.name, func(t *testing.T) {
			st := s.start(t)
			t.Run("A019 A021 I023 DV102 models are listed and copied, a restart downloads nothing", st.testCopy)
			t.Run("a changed object alone is downloaded, and the copy of a removed one is removed", st.testChange)
			t.Run("an interrupted download continues, also after a restart", st.testResume)
			if !st.noDigests {
				t.Run("a content under another name is not downloaded again", st.testContent)
			}
			t.Run("keys that cannot be files", st.testHostile)
			t.Run("A023 a single object continues what is there", st.testObject)
			t.Run("wrong credentials", st.testWrong)
			t.Run("no such bucket", st.testNoBucket)
		})
	}
}

func (s *storage) testCopy(t *testing.T) {
	want := map[string]string{"config.pbtxt": "backend: \"identity\"", "labels.txt": "cat", "1/model.onnx": "one",
		"2/model.onnx": "two", "2/sub/data.bin": "data"}
	for rel, text := range want {
		s.put(t, "copy/repo/m/"+rel, []byte(text))
	}
	s.put(t, "copy/repo/empty/1/model.py", nil)
	s.put(t, "copy/repo/m/.DS_Store", []byte("x"))
	s.put(t, "copy/repo/README.md", []byte("x"))
	s.put(t, "copy/other/1/model.onnx", []byte("x"))
	cache, w := t.TempDir(), &wire{}
	found := scan(t, s.open(t, "/copy/repo", cache, w))
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"empty", "m"}) {
		t.Fatalf("models %v", got)
	}
	m := found["m"]
	if !slices.Equal(m.Numbers(), []int64{1, 2}) || m.Config != filepath.Join(m.Folder, "config.pbtxt") {
		t.Errorf("versions %v, configuration %q", m.Numbers(), m.Config)
	}
	if w.gets.Load() != 0 {
		t.Errorf("looking at the repository downloaded %d objects", w.gets.Load())
	}
	if err := m.FetchVersion(t.Context(), 2, nil); err != nil {
		t.Fatal(err)
	}
	if got := files(t, m.Folder); len(got) != 2 {
		t.Errorf("files of version 2: %v", got)
	}
	if got := fetch(t, m); !maps.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if got := fetch(t, found["empty"]); len(got) != 1 {
		t.Errorf("files of empty: %v", got)
	}
	before := w.gets.Load()
	again := scan(t, s.open(t, "/copy/repo/", cache, w))["m"]
	if got := fetch(t, again); !maps.Equal(got, want) || w.gets.Load() != before || !again.Equal(m) {
		t.Errorf("after a restart: files %v, %d more downloads, equal %v", got, w.gets.Load()-before, again.Equal(m))
	}
}

func (s *storage) testChange(t *testing.T) {
	s.put(t, "change/m/config.pbtxt", []byte("one"))
	s.put(t, "change/m/1/a.bin", []byte("same"))
	s.put(t, "change/m/1/b.bin", []byte("old"))
	w := &wire{}
	r := s.open(t, "/change", t.TempDir(), w)
	first := scan(t, r)["m"]
	fetch(t, first)
	if again := scan(t, r)["m"]; !again.Equal(first) {
		t.Error("an unchanged model does not look the same")
	}
	b, err := os.Open(filepath.Join(first.Folder, "1/b.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s.put(t, "change/m/1/b.bin", []byte("new"))
	s.put(t, "change/m/2/a.bin", []byte("same"))
	s.remove(t, "change/m/config.pbtxt")
	w.gets.Store(0)
	second := scan(t, r)["m"]
	if second.Versions[1] == first.Versions[1] || second.Shared == first.Shared || second.Config != "" {
		t.Errorf("versions %v -> %v, shared %v -> %v, configuration %q", first.Versions, second.Versions, first.Shared,
			second.Shared, second.Config)
	}
	want := map[string]string{"1/a.bin": "same", "1/b.bin": "new", "2/a.bin": "same"}
	got := fetch(t, second)
	if !maps.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	old := make([]byte, 8)
	if n, _ := b.Read(old); string(old[:n]) != "old" {
		t.Errorf("a reader of the old file gets %q", old[:n])
	}
	s.remove(t, "change/m/1/a.bin")
	s.remove(t, "change/m/1/b.bin")
	s.remove(t, "change/m/2/a.bin")
	if found := scan(t, r); len(found) != 0 {
		t.Errorf("models %v after all objects went", found)
	}
	if _, err := os.Stat(first.Folder); err == nil {
		t.Error("the copy of a removed model is still there")
	}
}

func (s *storage) testResume(t *testing.T) {
	data := random(t, 1<<20)
	s.put(t, "resume/m/1/model.bin", data)
	cache, w := t.TempDir(), &wire{cut: 300 << 10}
	w.cuts.Store(2)
	var told []int64
	m := scan(t, s.open(t, "/resume", cache, w))["m"]
	err := m.FetchVersion(t.Context(), 1, func(done, total int64) {
		told = append(told, done)
		if total != 1<<20 {
			t.Errorf("progress of %d bytes", total)
		}
	})
	got, rerr := os.ReadFile(filepath.Join(m.Folder, "1/model.bin"))
	if err != nil || rerr != nil || !bytes.Equal(got, data) {
		t.Fatalf("after two cuts: %d bytes, %v, %v", len(got), err, rerr)
	}
	if w.bytes.Load() != 1<<20 || w.ranges.Load() != 2 {
		t.Errorf("%d bytes came, %d requests went on; want 1 MiB and 2", w.bytes.Load(), w.ranges.Load())
	}
	if len(told) == 0 || told[len(told)-1] != 1<<20 || !slices.IsSorted(told) {
		t.Errorf("progress %v", told)
	}

	// Given up half way, by an end of the server.
	data = random(t, 1<<20)
	s.put(t, "resume/m/1/model.bin", data)
	w = &wire{cut: 400 << 10}
	w.cuts.Store(1)
	r := s.open(t, "/resume", cache, w)
	m = scan(t, r)["m"]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = m.FetchVersion(ctx, 1, func(done, _ int64) {
		if done > 0 {
			cancel()
		}
	})
	if err == nil {
		t.Fatal("a load that was given up says that it is whole")
	}
	if b, err := os.ReadFile(filepath.Join(m.Folder, "1/model.bin")); err == nil && len(b) != 1<<20 {
		t.Errorf("half a file is at the model's place: %d bytes", len(b))
	}
	before := w.bytes.Load()
	m = scan(t, s.open(t, "/resume", cache, w))["m"]
	if got := fetch(t, m)["1/model.bin"]; got != string(data) || before == 0 || w.bytes.Load() != 1<<20 {
		t.Errorf("after the restart: whole %v, %d bytes before it, %d in all", got == string(data), before,
			w.bytes.Load())
	}

	// A server that never sends it whole.
	s.put(t, "resume/m/1/model.bin", random(t, 1<<20))
	w = &wire{cut: 0}
	w.cuts.Store(1 << 30)
	m = scan(t, s.open(t, "/resume", cache, w))["m"]
	err = m.FetchVersion(t.Context(), 1, nil)
	if err == nil || !strings.Contains(err.Error(), "failed to download "+s.root+"/resume/m/1/model.bin: ") ||
		!strings.Contains(err.Error(), errCut.Error()) {
		t.Errorf("error %v", err)
	}
}

func (s *storage) testContent(t *testing.T) {
	data := random(t, 64<<10)
	s.put(t, "content/a/1/model.bin", data)
	w := &wire{}
	r := s.open(t, "/content", t.TempDir(), w)
	fetch(t, scan(t, r)["a"])
	s.put(t, "content/a/2/model.bin", data)
	s.put(t, "content/b/1/other.bin", data)
	found := scan(t, r)
	if fetch(t, found["a"])["2/model.bin"] != string(data) || fetch(t, found["b"])["1/other.bin"] != string(data) ||
		w.gets.Load() != 1 {
		t.Errorf("one content was downloaded %d times", w.gets.Load())
	}
}

func (s *storage) testHostile(t *testing.T) {
	s.put(t, "hostile/good/1/model.bin", []byte("x"))
	s.put(t, `hostile/back/1/a\..\model.bin`, []byte("x"))
	if !s.folders {
		s.put(t, "hostile/twice/1//model.bin", []byte("x"))
	}
	cache := t.TempDir()
	found := scan(t, s.open(t, "/hostile", cache, nil))
	if m := found["good"]; m == nil || m.Err != nil {
		t.Errorf("good: %v", m)
	}
	for _, name := range []string{"back", "twice"} {
		if m := found[name]; m != nil && (m.Err == nil || !strings.Contains(m.Err.Error(),
			"cannot be a file in a model folder")) {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func (s *storage) testWrong(t *testing.T) {
	if s.wrong == nil {
		t.Log("this server asks for none")
		return
	}
	o := s.options(t.TempDir(), nil)
	o.Lookup = func(name string) (string, bool) { v, ok := s.wrong[name]; return v, ok }
	r, err := cloud.Open(t.Context(), s.root+"/copy/repo", o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, unread := repo.Scan(repo.Options{Roots: []string{"remote"}, Remotes: map[string]repo.Remote{"remote": r}})
	err = unread["remote"]
	if err == nil || !strings.Contains(err.Error(), "refuses the credentials") ||
		!strings.Contains(err.Error(), cmp.Or(s.advice, "TRITON_CLOUD_CREDENTIAL_PATH")) {
		t.Errorf("error %v", err)
	}
}

func (s *storage) testNoBucket(t *testing.T) {
	at := strings.TrimSuffix(s.root, "models") + "nosuchbucket"
	r, err := cloud.Open(t.Context(), at, s.options(t.TempDir(), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if files, err := r.List(""); err == nil || !strings.Contains(err.Error(), "there is no such") {
		t.Errorf("List = %v, %v", files, err)
	}
}

// TestCredentialsFile tests the entries of Triton's credential file.
func (s *storage) testObject(t *testing.T) {
	data := random(t, 1<<20)
	s.put(t, "blobs/one", data)
	s.put(t, "blobs/one-and-more", []byte("x"))
	file, w := filepath.Join(t.TempDir(), "one.part"), &wire{}
	if err := os.WriteFile(file, data[:1<<19], 0o600); err != nil {
		t.Fatal(err)
	}
	o := s.options("", w)
	if err := cloud.Object(t.Context(), s.root+"/blobs/one", file, 1<<20, o, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, data) || w.bytes.Load() != 1<<19 {
		t.Errorf("%d bytes were read, %v", w.bytes.Load(), err)
	}
	for path, size := range map[string]int64{"/blobs/on": 1, "/blobs/": 1, "/blobs/one": 7} {
		if err := cloud.Object(t.Context(), s.root+path, file, size, o, nil); err == nil {
			t.Errorf("%s with %d bytes is there", path, size)
		}
	}
}

func TestCredentialsFile(t *testing.T) {
	s := startS3(t)
	s.put(t, "a/m/1/model.bin", []byte("x"))
	good := `{"key_id": "` + s3Key + `", "secret_key": "` + s3Secret + `", "region": "eu-west-1"}`
	const bad = `{"key_id": "AKIDWRONG", "secret_key": "x"}`
	for _, tt := range []struct{ name, text, want string }{
		{"A020 H090 the longest prefix wins",
			`{"s3": {"": ` + bad + `, "` + s.root + `/a": ` + good + `, "` + s.root + `": ` + bad + `}}`, ""},
		{"A020 the entry without a prefix is for all others", `{"s3": {"s3://other": ` + bad + `, "": ` + good + `}}`,
			""},
		{"A020 no entry fits", `{"s3": {"s3://other": ` + good + `}}`, "no entry fits"},
		{"A020 no S3 in it", `{"gs": {"": "x.json"}}`, "no entry fits"},
		{"A020 wrong keys in the entry", `{"s3": {"": ` + bad + `}}`, "refuses the credentials"},
		{"A020 not JSON", `s3 = x`, "is not a file of credentials"},
		{"A020 unknown field", `{"s3": {"": {"keyid": "x"}}}`, "is not a file of credentials"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "credentials.json")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			o := s.options(t.TempDir(), nil)
			// The file goes before the other variables.
			o.Lookup = lookup(map[string]string{"TRITON_CLOUD_CREDENTIAL_PATH": path, "AWS_ACCESS_KEY_ID": "no",
				"AWS_SECRET_ACCESS_KEY": "no"})
			r, err := cloud.Open(t.Context(), s.root+"/a", o)
			if err == nil {
				defer r.Close()
				_, err = r.List("")
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestCredentialsFileOfOtherStorages_A020 tests the sections "as" and "gs" of the file. The server for Google's storage
// accepts every key, so there only the choice of the entry shows.
func TestCredentialsFileOfOtherStorages_A020(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, tt := range []struct {
		name, text, want string
		start            func(*testing.T) *storage
	}{
		{"as", `{"as": {"": BAD, "ROOT/a": GOOD, "ROOT": BAD}}`, "", startAzure},
		{"gs", `{"gs": {"": "other.json", "ROOT/a": "/nonexistent/key.json"}}`, "/nonexistent/key.json", startGCS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.start(t)
			s.put(t, "a/m/1/model.bin", []byte("x"))
			path := filepath.Join(t.TempDir(), "credentials.json")
			const account = `{"account_str": "` + azuriteAccount + `", "account_key": "`
			text := strings.NewReplacer("ROOT", s.root, "GOOD", account+azuriteKey+`"}`, "BAD", account+`d3Jvbmc="}`).
				Replace(tt.text)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			o := s.options(t.TempDir(), nil)
			o.Lookup = lookup(map[string]string{"TRITON_CLOUD_CREDENTIAL_PATH": path})
			r, err := cloud.Open(t.Context(), s.root+"/a", o)
			if err == nil {
				defer r.Close()
				_, err = r.List("")
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

func TestMountDirectory(t *testing.T) {
	s := startS3(t)
	s.put(t, "m/1/model.bin", []byte("x"))
	t.Run("A019 H090 copies are in the given folder", func(t *testing.T) {
		dir := t.TempDir()
		s.env["TRITON_AWS_MOUNT_DIRECTORY"] = dir
		defer delete(s.env, "TRITON_AWS_MOUNT_DIRECTORY")
		m := scan(t, s.open(t, "", t.TempDir(), nil))["m"]
		if fetch(t, m); !strings.HasPrefix(m.Folder, dir) {
			t.Errorf("folder %s, want it in %s", m.Folder, dir)
		}
	})
	t.Run("A019 a folder that does not exist", func(t *testing.T) {
		o := s.options(t.TempDir(), nil)
		o.Lookup = lookup(map[string]string{"AWS_ACCESS_KEY_ID": s3Key, "AWS_SECRET_ACCESS_KEY": s3Secret,
			"TRITON_AWS_MOUNT_DIRECTORY": "/nonexistent/x"})
		_, err := cloud.Open(t.Context(), s.root, o)
		if err == nil || !strings.Contains(err.Error(), "TRITON_AWS_MOUNT_DIRECTORY") {
			t.Errorf("Open: %v", err)
		}
	})
}

// TestOpenRefuses tests invalid addresses.
func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		code       status.Code
	}{
		{"hdfs:///models", "names no name node and folder", status.InvalidArg},
		{"hdfs://namenode:9870/", "names no name node and folder", status.InvalidArg},
		{"ftp://host/models", "ftp:// is not supported", status.Unsupported},
		{"s3://", "names no bucket", status.InvalidArg},
		{"s3://127.0.0.1:9000", "names no bucket", status.InvalidArg},
		{"gs:///", "names no bucket", status.InvalidArg},
		{"as://account", "names no account and container", status.InvalidArg},
	} {
		o := cloud.Options{Cache: t.TempDir(), Lookup: lookup(nil), Log: slog.New(slog.DiscardHandler)}
		_, err := cloud.Open(t.Context(), tt.text, o)
		if err == nil || !strings.Contains(err.Error(), tt.want) || status.CodeOf(err) != tt.code {
			t.Errorf("Open(%s) = %v, want %q", tt.text, err, tt.want)
		}
	}
}
