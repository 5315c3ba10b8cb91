package get

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A download that fails because the network is lost is continued by the same command, unless the file has changed.
func TestALaterCommandContinuesADownload(t *testing.T) {
	before, after := bytes.Repeat([]byte("a"), 1<<20), bytes.Repeat([]byte("b"), 1<<20)
	for name, now := range map[string][]byte{"the same file": before, "another file": after} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var well atomic.Bool
			ranges := make(chan string, 10)
			url := serve(t, now, func(w http.ResponseWriter, r *http.Request) bool {
				if well.Load() {
					ranges <- r.Header.Get("Range")
					if !bytes.Equal(now, before) {
						w.Header().Set("ETag", `"two"`)
					}
					return false
				}
				if r.Header.Get("Range") != "" {
					http.Error(w, "later", http.StatusServiceUnavailable)
				} else {
					http.ServeContent(&cut{w, 1 << 19}, r, "", time.Time{}, bytes.NewReader(before))
				}
				return true
			})
			dir := t.TempDir()
			status, text := run(t.Context(), dir, url+"/x.onnx")
			if status == 0 || !strings.Contains(text, "the first 524288 bytes are kept") {
				t.Fatalf("status %d: %s", status, text)
			}
			if names := entries(t, dir); len(names) != 1 || !strings.HasPrefix(names[0], prefix) {
				t.Errorf("the repository has %v", names)
			}
			well.Store(true)
			if status, text := run(t.Context(), dir, url+"/x.onnx"); status != 0 {
				t.Fatal(text)
			}
			if first := <-ranges; first != "bytes=524288-" || len(ranges) > 0 {
				t.Errorf("the server was asked for %q, and %d times more", first, len(ranges))
			}
			wantOnly(t, dir, "x", now)
		})
	}
}

// wantOnly checks that a repository has one model with one file.
func wantOnly(t *testing.T, dir, model string, content []byte) {
	t.Helper()
	if names := entries(t, dir); !slices.Equal(names, []string{model}) {
		t.Errorf("the repository has %v", names)
	}
	if b, err := os.ReadFile(filepath.Join(dir, model, "1", "model.onnx")); err != nil || !bytes.Equal(b, content) {
		t.Errorf("the model has another content: %v", err)
	}
}

// Parts of a download that no command continues are removed by a later command. A workspace in use stays.
func TestOldDownloadsAreRemoved(t *testing.T) {
	dir, long := filepath.Join(t.TempDir(), "models[1]"), time.Now().Add(-2*keepFor)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var used *workspace
	for _, source := range []string{"old", "young", "used"} {
		w, err := openWorkspace(dir, source)
		if err != nil {
			t.Fatal(err)
		}
		if source != "young" {
			if err := os.Chtimes(filepath.Join(w.dir, "lock"), long, long); err != nil {
				t.Fatal(err)
			}
		}
		if source == "used" {
			used = w
			continue
		}
		if err := w.keep(); err != nil {
			t.Fatal(err)
		}
	}
	if status, text := run(t.Context(), dir, serve(t, []byte("x"), nil)+"/x.onnx"); status != 0 {
		t.Fatal(text)
	}
	if names := entries(t, dir); len(names) != 3 {
		t.Errorf("the repository has %v", names)
	}
	if _, err := openWorkspace(dir, "used"); err == nil || !strings.Contains(err.Error(), "another nereid get") {
		t.Errorf("a second command for a source: %v", err)
	}
	if err := used.remove(); err != nil {
		t.Error(err)
	}
}

func TestTheMeterShowsOneLine(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	m := &meter{w: &out, now: func() time.Time { return now }, every: time.Second}
	m.at("x.onnx", 0, 4*mib)
	m.at("x.onnx", 1, 4*mib) // too early
	now = now.Add(2 * time.Second)
	m.at("x.onnx", 1*mib, 4*mib)
	m.at("y", 2*mib, -1)
	m.end()
	var lines []string
	for line := range strings.SplitSeq(out.String(), "\r") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	want := []string{"", "x.onnx: 0.0 of 4.0 MiB, 0 %", "x.onnx: 1.0 of 4.0 MiB, 25 %, 0.5 MiB/s", "y: 2.0 MiB", "", ""}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}
