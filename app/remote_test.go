package app

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// A server serves a folder and a bucket together. The page shows the bucket's models but cannot change them.
func TestRemoteRepository(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{"repo/far/config.pbtxt": identityText, "repo/far/1/x": "x",
		"repo/idle/1/x": "x"} {
		if _, err := backend.PutObject("models", key, nil, strings.NewReader(text), int64(len(text)), nil); err != nil {
			t.Fatal(err)
		}
	}
	srv := httptest.NewServer(gofakes3.New(backend, gofakes3.WithoutVersioning()).Server())
	defer srv.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	address := "s3://" + strings.TrimPrefix(srv.URL, "http://") + "/models/repo"
	r := runServer(t, "", "--model-repository="+address, "--load-model=far")
	console := "http://" + r.at("ui")

	t.Run("A016 H090 a model of the bucket serves beside one of the folder", func(t *testing.T) {
		for _, name := range []string{"good", "far"} {
			if code, text := get(t, "GET", "http://"+r.at("http")+"/v2/models/"+name+"/ready"); code != 200 {
				t.Errorf("%s: %d %s\n%s", name, code, text, r.out)
			}
		}
		if log := r.out.String(); !strings.Contains(log, "downloading: far:1") || !strings.Contains(log, address) {
			t.Errorf("the log has neither the download nor the repository:\n%s", log)
		}
	})
	t.Run("the page shows it and cannot change it", func(t *testing.T) {
		code, text := get(t, "GET", console+"/api/models/far")
		if code != 200 || !strings.Contains(text, `"repository":"`+address+`"`) ||
			!strings.Contains(text, `"writable":false`) {
			t.Errorf("model: %d %s", code, text)
		}
		if code, text := get(t, "GET", console+"/api/models"); code != 200 || !strings.Contains(text, `"idle"`) {
			t.Errorf("models: %d %s", code, text)
		}
		if code, text := get(t, "GET", console+"/api/server"); code != 200 ||
			!strings.Contains(text, `{"path":"`+address+`","writable":false,"models":1,"error":""}`) {
			t.Errorf("server: %d %s", code, text)
		}
		if code, text := get(t, "DELETE", console+"/api/models/far"); code != 403 {
			t.Errorf("deleting it: %d %s", code, text)
		}
	})
}

// A relative path of a repository counts from the folder in which the server starts.
func TestRepositoriesByRelativePath(t *testing.T) {
	more := t.TempDir()
	if err := os.MkdirAll(filepath.Join(more, "readonly", "second", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(more, "readonly", "second", "config.pbtxt"), []byte(identityText),
		0o444); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"readonly/second/1", "readonly/second", "readonly"} {
		if err := os.Chmod(filepath.Join(more, dir), 0o555); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, dir := range []string{"readonly", "readonly/second"} { // so that it can be removed
			if err := os.Chmod(filepath.Join(more, dir), 0o755); err != nil {
				t.Error(err)
			}
		}
	})
	t.Chdir(more)
	r := runServer(t, "", "--model-store=readonly", "--load-model=second")
	t.Run("A001 A002 A003 A004 a relative path, under the old name of the option, read only, beside another",
		func(t *testing.T) {
			for _, name := range []string{"good", "second"} {
				if code, text := get(t, "GET", "http://"+r.at("http")+"/v2/models/"+name+"/ready"); code != 200 {
					t.Errorf("%s: %d %s\n%s", name, code, text, r.out)
				}
			}
		})
}
