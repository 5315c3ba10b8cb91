package download_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nereid/app/download"
)

// A file with a known digest is continued from another URL, whatever its tag is there.
func TestA023KnownContentIsContinuedFromAnotherURL(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var ranges []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range")+r.Header.Get("If-Range"))
		if r.URL.Path == "/broken" {
			if r.Header.Get("Range") != "" {
				http.Error(w, "gone", http.StatusGone)
				return
			}
			w.Header().Set("Content-Length", "1048576")
			_, _ = w.Write(content[:1000])
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "part")
	get := func(path string) error {
		d := download.Download{URL: s.URL + path, Shown: path, Most: 1 << 20, SHA256: "known",
			Client: download.NewClient()}
		return d.To(t.Context(), file)
	}
	if err := get("/broken"); err == nil || !strings.Contains(err.Error(), "410") {
		t.Fatalf("the broken URL: %v", err)
	}
	if err := get("/whole"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
		t.Errorf("another content of %d bytes, %v", len(got), err)
	}
	if want := []string{"", "bytes=1000-", "bytes=1000-"}; !slices.Equal(ranges, want) {
		t.Errorf("ranges %q, want %q", ranges, want)
	}
	if _, err := os.Stat(file + ".state"); err == nil {
		t.Error("there is a file with a state")
	}
}

func TestA023OtherMachinesNeedTLSOrADigest(t *testing.T) {
	d := download.Download{URL: "http://192.0.2.1/x", Client: download.NewClient(), Most: 1}
	if err := d.To(t.Context(), filepath.Join(t.TempDir(), "x")); err == nil ||
		!strings.Contains(err.Error(), "is not https") {
		t.Errorf("%v", err)
	}
}
