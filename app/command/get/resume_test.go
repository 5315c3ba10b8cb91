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

// A download that ends for want of a network is continued by the same command, and only by it.
func TestALaterCommandContinuesADownload(t *testing.T) {
	before, after := bytes.Repeat([]byte("a"), 1<<20), bytes.Repeat([]byte("b"), 1<<20)
	for name, now := range map[string][]byte{"the same file": before, "another file": after} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			broken.Store(true)
			ranges := make(chan string, 10)
			url := serve(t, now, func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case !broken.Load():
					ranges <- r.Header.Get("Range")
					if !bytes.Equal(now, before) {
						w.Header().Set("ETag", `"two"`)
					}
					return false
				case r.Header.Get("Range") != "":
					http.Error(w, "later", http.StatusServiceUnavailable)
				default:
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
			broken.Store(false)
			if status, text := run(t.Context(), dir, url+"/x.onnx"); status != 0 {
				t.Fatal(text)
			}
			b, err := os.ReadFile(filepath.Join(dir, "x", "1", "model.onnx"))
			if err != nil || !bytes.Equal(b, now) {
				t.Errorf("the file is another one: %v", err)
			}
			if first := <-ranges; first != "bytes=524288-" || len(ranges) > 0 {
				t.Errorf("the server was asked for %q, and %d times more", first, len(ranges))
			}
			if names := entries(t, dir); !slices.Equal(names, []string{"x"}) {
				t.Errorf("the repository has %v", names)
			}
		})
	}
}

// What was kept for a command that never came is removed by another one. A workspace in use stays.
func TestOldDownloadsAreRemoved(t *testing.T) {
	dir, long := t.TempDir(), time.Now().Add(-2*keepFor)
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
