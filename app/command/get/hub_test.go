package get

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"nereid/app/command"
)

// runIn is run with an environment.
func runIn(ctx context.Context, env map[string]string, args ...string) (status int, text string) {
	var out bytes.Buffer
	e := &command.Env{Program: "nereid", Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	status = Run(ctx, e, args)
	return status, out.String()
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// weightsIn is an ONNX file whose only tensor is in another file.
func weightsIn(location string) []byte {
	text := func(b []byte, n protowire.Number, v ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	entry := text(text(nil, 1, []byte("location")...), 2, []byte(location)...)
	tensor := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 2, protowire.VarintType), 1)
	tensor = text(tensor, 13, entry...)
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 14, protowire.VarintType), 1)
	return text(nil, 7, text(nil, 5, tensor...)...)
}

const commit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub speaks Hugging Face's API for the model o/m, whose files above 1000 bytes are on another server.
func fakeHub(t *testing.T, files map[string][]byte) (endpoint string) {
	t.Helper()
	var cuts atomic.Int32
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the store of files got the token")
		}
		b := files[strings.TrimPrefix(r.URL.Path, "/")]
		w.Header().Set("ETag", `"`+sum(b)+`"`)
		if cuts.Add(1) == 1 {
			http.ServeContent(&cut{w, len(b) / 2}, r, "", time.Time{}, bytes.NewReader(b))
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}))
	t.Cleanup(store.Close)
	fail := func(w http.ResponseWriter, status int, code string) {
		w.Header().Set("X-Error-Code", code)
		http.Error(w, code, status)
	}
	api, mux := http.NewServeMux(), http.NewServeMux()
	api.HandleFunc("GET /api/models/{owner}/{name}/revision/{revision}", func(w http.ResponseWriter, r *http.Request) {
		switch name := r.PathValue("name"); {
		case name == "private" && r.Header.Get("Authorization") == "", name == "missing":
			fail(w, http.StatusUnauthorized, "RepoNotFound")
			return
		case name == "gated" && r.Header.Get("Authorization") != "Bearer accepted":
			fail(w, http.StatusForbidden, "GatedRepo")
			return
		case !slices.Contains([]string{"main", "refs/pr/1", commit}, r.PathValue("revision")):
			fail(w, http.StatusNotFound, "RevisionNotFound")
			return
		}
		m := hubModel{Commit: commit}
		m.CardData.License = "mit"
		for _, name := range slices.Sorted(maps.Keys(files)) {
			f := hubFile{Name: name, Size: int64(len(files[name]))}
			if f.Size > 1000 {
				f.LFS.SHA256 = sum(files[name])
			}
			if name == "broken.onnx" {
				f.LFS.SHA256 = sum(nil)
			}
			m.Files = append(m.Files, f)
		}
		if err := json.NewEncoder(w).Encode(m); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("GET /{owner}/{name}/resolve/{commit}/{file...}", func(w http.ResponseWriter, r *http.Request) {
		b, ok := files[r.PathValue("file")]
		switch {
		case !ok || r.PathValue("commit") != commit:
			fail(w, http.StatusNotFound, "EntryNotFound")
		case len(b) > 1000:
			w.Header().Set("X-Linked-Etag", `"`+sum(b)+`"`)
			http.Redirect(w, r, store.URL+"/"+r.PathValue("file"), http.StatusFound)
		default:
			w.Header().Set("ETag", `"one"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
		}
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			api.ServeHTTP(w, r)
		} else {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAModelOfAHubComesWithWhatItNeeds(t *testing.T) {
	weights := bytes.Repeat([]byte("weights "), 1<<14)
	files := map[string][]byte{
		"onnx/model.onnx": weightsIn("model.onnx_data"), "onnx/model.onnx_data": weights, "onnx/model_int8.onnx": nil,
		"onnx/model_int8.onnx_data": weights, "config.json": []byte("{}"), "onnx/vocab.txt": []byte("a\nb"),
		"vocab.txt": []byte("other"), "pytorch_model.bin": weights, "README.md": []byte("read"), ".gitattributes": nil,
	}
	env := map[string]string{"HF_ENDPOINT": fakeHub(t, files) + "/", "HF_TOKEN": "secret"}
	dir := t.TempDir()
	status, text := runIn(t.Context(), env, "-r", dir, "hf:o/some-model@refs/pr/1", "--json")
	if status != 0 {
		t.Fatal(text)
	}
	var got []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	want := []string{"some-model/1/model.onnx", "some-model/1/model.onnx_data", "some-model/config.json",
		"some-model/provenance.json", "some-model/vocab.txt"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, want[1])); err != nil || !bytes.Equal(b, weights) {
		t.Errorf("the weights have %d bytes, %v", len(b), err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, want[4])); err != nil || string(b) != "a\nb" {
		t.Errorf("vocab.txt is %q, %v", b, err)
	}
	var p provenance
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Revision != commit || p.License != "mit" ||
		p.File != "onnx/model.onnx" || p.SHA256 != sum(files["onnx/model.onnx"]) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestWhatAHubRefusesIsExplained(t *testing.T) {
	weights := bytes.Repeat([]byte("weights "), 1<<10)
	files := map[string][]byte{"a.onnx": weights, "b.onnx": weights, "lone.onnx": weightsIn("none.bin"),
		"out.onnx": weightsIn("../a.onnx"), "broken.onnx": weights}
	hub, bare := fakeHub(t, files), fakeHub(t, map[string][]byte{"model.safetensors": weights})
	for source, want := range map[string]string{
		"hf:o/private":          "HF_TOKEN",
		"hf:o/missing":          "has no public model",
		"hf:o/gated":            "agree to its terms",
		"hf:o/m@other":          "has no revision other",
		"hf:o/m":                "choose one with hf:o/m/FILE: a.onnx, b.onnx",
		"hf:o/m/z.onnx":         "has no file z.onnx",
		"hf:o/m/lone.onnx":      "keeps weights in none.bin, which o/m does not have",
		"hf:o/m/out.onnx":       `keeps weights in "../a.onnx"`,
		"hf:o/m/broken.onnx":    "of the hub; nothing was kept",
		"hf:o/m/../../x":        "is no model of a hub",
		"hf:o/m/a.onnx@../main": "is no model of a hub",
		"hf:o":                  "is no model of a hub",
		"hf:bare/m":             "optimum-cli export onnx",
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"HF_ENDPOINT": hub}
			if strings.HasPrefix(source, "hf:bare") {
				env["HF_ENDPOINT"] = bare
			}
			if strings.Contains(source, "gated") {
				env["HF_TOKEN"] = "not accepted"
			}
			dir := t.TempDir()
			status, text := runIn(t.Context(), env, "-r", dir, source)
			if status == 0 || !strings.Contains(text, want) || strings.Contains(text, "not accepted") {
				t.Errorf("status %d: %s\nwant %q", status, text, want)
			}
			if names := entries(t, dir); len(names) > 0 {
				t.Errorf("the repository has %v", names)
			}
		})
	}
}

func TestTokensAreFoundWhereHuggingFaceHasThem(t *testing.T) {
	hub := fakeHub(t, map[string][]byte{"x.onnx": []byte("x")})
	home := t.TempDir()
	token := filepath.Join(home, ".cache", "huggingface", "token")
	if err := os.MkdirAll(filepath.Dir(token), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte("accepted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string]map[string]string{
		"variable": {"HF_TOKEN": "accepted"},
		"path":     {"HF_TOKEN_PATH": token},
		"HF_HOME":  {"HF_HOME": filepath.Dir(token)},
		"home":     {"HOME": home},
		"option":   {"HF_TOKEN": "another", "option": token},
	} {
		env["HF_ENDPOINT"] = hub
		if status, text := runIn(t.Context(), env, "-r", t.TempDir(), "--token-file="+env["option"],
			"hf:o/gated"); status != 0 {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// FuzzHubSource: what becomes part of a URL or a path has no way out.
func FuzzHubSource(f *testing.F) {
	f.Add("hf:o/m/onnx/model.onnx@refs/pr/1")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHub(s)
		if err == nil && (strings.Contains(h.model+"/"+h.file+"/"+h.revision, "/../") ||
			!filepath.IsLocal("x/"+h.file) || strings.ContainsAny(h.model+h.revision, "?#%\n ")) {
			t.Errorf("%q gives %+v", s, h)
		}
	})
}
