package get

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nereid/app/command"
	"nereid/app/download"
)

const (
	imageConfig = "application/vnd.oci.image.config.v1+json"
	emptyConfig = "application/vnd.oci.empty.v1+json"
	tarGzip     = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// tarred is a compressed archive.
func tarred(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}
		if files[i+1] == "LINK" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, "/bin/sh", 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(files[i+1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w.Close() != nil || z.Close() != nil {
		t.Fatal("the archive cannot be made")
	}
	return b.Bytes()
}

// fakeRegistry speaks the OCI distribution specification. A name below "private/" needs a token, which the token
// service gives for the login user:word.
type fakeRegistry struct {
	blobs     map[string][]byte // by digest
	manifests map[string][]byte // by NAME:TAG and NAME:DIGEST
	host      string
}

func newRegistry(t *testing.T) *fakeRegistry {
	t.Helper()
	f := &fakeRegistry{blobs: map[string][]byte{}, manifests: map[string][]byte{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.host = strings.TrimPrefix(s.URL, "http://")
	return f
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		user, word, _ := r.BasicAuth()
		if user != "user" || word != "word" || !strings.HasPrefix(r.URL.Query().Get("scope"), "repository:private/") {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"token":"good"}`)
		return
	}
	name, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
	content, ok := f.manifests[name+":"+what]
	if what == "" {
		name, what, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/blobs/")
		content, ok = f.blobs[what]
	}
	switch {
	case strings.HasPrefix(name, "private/") && r.Header.Get("Authorization") != "Bearer good":
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="s",`+
			`scope="repository:%s:pull"`, f.host, name))
		http.Error(w, "log in", http.StatusUnauthorized)
	case !ok:
		http.NotFound(w, r)
	default:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// push adds an artifact and returns the digest of its manifest.
func (f *fakeRegistry) push(t *testing.T, name, config string, layers ...layer) string {
	t.Helper()
	var m manifest
	m.Config.MediaType, m.Layers = config, layers
	return f.manifest(t, name, m)
}

func (f *fakeRegistry) manifest(t *testing.T, name string, m manifest) string {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	digest := "sha256:" + sum(b)
	f.manifests[name+":latest"], f.manifests[name+":"+digest] = b, b
	return digest
}

func (f *fakeRegistry) layer(mediaType, title string, content []byte) layer {
	l := layer{MediaType: mediaType, Digest: "sha256:" + sum(content), Size: int64(len(content)),
		Annotations: map[string]string{}}
	if title != "" {
		l.Annotations["org.opencontainers.image.title"] = title
	}
	f.blobs[l.Digest] = content
	return l
}

func TestModelsOfARegistryArePlaced(t *testing.T) {
	f := newRegistry(t)
	data := strings.Repeat("weights ", 1<<10)
	other := f.push(t, "o/files", emptyConfig, f.layer("application/octet-stream", "other.onnx", []byte("other")))
	f.push(t, "o/files", emptyConfig, f.layer("application/octet-stream", "model.onnx", weightsIn("w/data")),
		f.layer("application/octet-stream", "w/data", []byte(data)), f.layer("application/json", "", []byte("{}")))
	f.push(t, "o/tar", emptyConfig, f.layer("application/vnd.kitops.modelkit.model.v1.tar+gzip", "",
		tarred(t, "m/1/model.onnx", "in the tar")))
	image := f.push(t, "o/image", imageConfig,
		f.layer(tarGzip, "", tarred(t, "bin/sh", "LINK", "etc/model.onnx", "no")),
		f.layer(tarGzip, "", tarred(t, "models/1/model.onnx", "in the image")))
	f.push(t, "private/x/m", emptyConfig, f.layer("application/octet-stream", "model.onnx", []byte("secret")))
	index := manifest{}
	if err := json.Unmarshal([]byte(`{"manifests":[{"digest":"`+image+`"}]}`), &index); err != nil {
		t.Fatal(err)
	}
	f.manifest(t, "o/index", index)
	f.manifests["o/index:"+image] = f.manifests["o/image:"+image]
	docker := t.TempDir()
	auth := base64.StdEncoding.EncodeToString([]byte("user:word"))
	if err := os.WriteFile(filepath.Join(docker, "config.json"), []byte(`{"auths":{"`+f.host+`":{"auth":"`+auth+`"}}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{
		"o/files":          "files/1/w/data=" + data,
		"o/files@" + other: "files/1/model.onnx=other",
		"o/tar":            "tar/1/model.onnx=in the tar",
		"o/image":          "image/1/model.onnx=in the image",
		"o/index:latest":   "index/1/model.onnx=in the image",
		"private/x/m":      "m/1/model.onnx=secret",
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			status, text := runIn(t.Context(), map[string]string{"DOCKER_CONFIG": docker}, "-r", dir,
				"oci:"+f.host+"/"+source)
			if status != 0 {
				t.Fatal(text)
			}
			path, content, _ := strings.Cut(want, "=")
			if b, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(b) != content {
				t.Errorf("%s has %.40q, %v", path, b, err)
			}
			if names := entries(t, dir); len(names) != 1 {
				t.Errorf("the repository has %v", names)
			}
		})
	}
}

func TestWhatARegistryRefusesIsExplained(t *testing.T) {
	f := newRegistry(t)
	bad := f.layer("application/octet-stream", "x.onnx", []byte("good"))
	f.blobs[bad.Digest] = []byte("evil")
	f.push(t, "o/bad", emptyConfig, bad)
	weak := f.layer("application/octet-stream", "x.onnx", []byte("weak"))
	weak.Digest = "md5:0"
	f.push(t, "o/weak", emptyConfig, weak)
	f.push(t, "o/zstd", emptyConfig, f.layer("application/vnd.oci.image.layer.v1.tar+zstd", "", []byte("z")))
	f.push(t, "o/none", emptyConfig)
	f.push(t, "o/link", emptyConfig, f.layer(tarGzip, "", tarred(t, "1/model.onnx", "LINK")))
	f.push(t, "o/out", emptyConfig, f.layer("application/octet-stream", "../x.onnx", []byte("x")))
	f.push(t, "o/big", emptyConfig, f.layer("application/octet-stream", "x.onnx", make([]byte, 2<<20)))
	f.push(t, "o/code", emptyConfig, f.layer("application/octet-stream", "model.py", []byte("class M: pass")))
	f.push(t, "private/m", emptyConfig, bad)
	for name, want := range map[string]string{
		"o/bad":                "of the manifest; nothing was kept",
		"o/weak":               "is not of SHA-256",
		"o/zstd":               "push it with gzip",
		"o/none":               "has no files",
		"o/link":               "is a link or a device",
		"o/out":                "only names inside the model",
		"o/big":                "--max-size allows more",
		"o/code":               "agree with --allow-code",
		"o/missing":            "has no such name, tag or file",
		"private/m":            "the token service",
		"O/upper":              "is no name in a registry",
		"o/x@sha256:00":        "is no name in a registry",
		"o/bad@sha256:" + zero: "has no such name, tag or file",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			status, text := runIn(t.Context(), nil, "-r", dir, "--max-size=1", "oci:"+f.host+"/"+name)
			if status == 0 || !strings.Contains(text, want) {
				t.Errorf("status %d: %s\nwant %q", status, text, want)
			}
			if names := entries(t, dir); len(names) > 0 {
				t.Errorf("the repository has %v", names)
			}
		})
	}
}

const zero = "0000000000000000000000000000000000000000000000000000000000000000"

// FuzzRegistrySource: what becomes part of a URL or a path has no way out.
func FuzzRegistrySource(f *testing.F) {
	f.Add("oci:localhost:5000/a/b:v1@sha256:" + zero)
	f.Fuzz(func(t *testing.T, s string) {
		if m := ociName.FindStringSubmatch(s); m != nil && (strings.Contains("/"+m[2]+"/", "/../") ||
			strings.ContainsAny(s, "?#%\n ")) {
			t.Errorf("%q passes", s)
		}
	})
}

// A registry elsewhere names a token service on this machine.
func TestTokenServiceOnThisMachineIsNotAsked_B12(t *testing.T) {
	f := newRegistry(t)
	var asked atomic.Bool
	here := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer here.Close()
	env := &command.Env{Lookup: func(string) (string, bool) { return t.TempDir(), true }}
	for host, refused := range map[string]bool{"registry.invalid": true, f.host: false} {
		r := registry{getter: &getter{env: env, work: &workspace{dir: t.TempDir()}, meter: &meter{}}, host: host,
			name: "m", client: download.NewClient(), header: http.Header{}}
		asked.Store(false)
		err := r.authorize(t.Context(), `Bearer realm="`+here.URL+`/token",service="s"`)
		if err == nil || asked.Load() == refused || strings.Contains(err.Error(), "is this machine") != refused {
			t.Errorf("registry %s: %v, asked %t; want a refusal: %t", host, err, asked.Load(), refused)
		}
	}
}
