package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nereid/app/console/api"
	"nereid/app/options"
)

// page returns what the page shows of the server.
func (r *rig) page(t *testing.T) api.Server {
	t.Helper()
	var s api.Server
	code, text := get(t, "GET", "http://"+r.at("ui")+"/api/server")
	if err := json.Unmarshal([]byte(text), &s); code != 200 || err != nil {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	return s
}

// The page and the log tell of a version that a text next to the program or at a URL names. Without the option no
// request is sent.
func TestThePageTellsOfANewVersion(t *testing.T) {
	const text = "999.0.0\nhttps://example.com/releases\n"
	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(text))
	}))
	defer srv.Close()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	next, err := os.CreateTemp(filepath.Dir(program), "version-*.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(next.Name())
	if _, err := next.WriteString(text); err != nil || next.Close() != nil {
		t.Fatal(err)
	}
	want := api.NewVersion{Version: "999.0.0", Link: "https://example.com/releases"}
	for _, source := range []string{srv.URL + "/version.txt", filepath.Base(next.Name())} {
		r := runServer(t, "", "--new-version-from="+source)
		got := r.page(t).NewVersion
		for end := time.Now().Add(time.Minute); got != want && time.Now().Before(end); {
			got = r.page(t).NewVersion
		}
		if got != want {
			t.Errorf("%s: the page has %+v, want %+v\n%s", source, got, want, r.out)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests at the start, want 1", n)
	}
	r := runServer(t, "")
	if got := r.page(t).NewVersion; got != (api.NewVersion{}) || requests.Load() != 1 {
		t.Errorf("without the option: %+v, %d requests", got, requests.Load()-1)
	}
	if _, err := options.Load(false, []string{"--data-dir=/d", "--new-version-from=http://example.com/v"},
		func(string) (string, bool) { return "", false }); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("a URL of another machine without TLS: %v", err)
	}
}
