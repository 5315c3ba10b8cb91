package newversion

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const own = "0.2.0"

// write makes a file in a temporary folder and returns it as a source.
func write(t *testing.T, text string) Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "version.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Source{path: path}
}

// look reads a source once and returns what a program of a version then knows, and its log.
func look(t *testing.T, s Source, version string) (Release, string) {
	t.Helper()
	var log bytes.Buffer
	w := New(s, version, slog.New(slog.NewTextHandler(&log, nil)))
	w.look(t.Context())
	return w.Newer(), log.String()
}

func TestOnlyAHigherVersionIsReported(t *testing.T) {
	for _, tt := range []struct {
		text, own string
		want      Release
	}{
		{"0.3.0\nhttps://example.com/releases\n", own, Release{"0.3.0", "https://example.com/releases"}},
		{"v0.3.0", own, Release{Version: "0.3.0"}},
		{" 0.10.0 \r\n\r\nmore\n", own, Release{Version: "0.10.0"}},
		{"0.3.0\n\nhttps://example.com\n", "v" + own, Release{Version: "0.3.0"}},
		{"0.2.0", own + "-rc.1", Release{Version: "0.2.0"}},
		{"0.2.0", own, Release{}},
		{"v0.2.0+build.7", own, Release{}},
		{"0.2.0-rc.1", own, Release{}},
		{"0.1.9", own, Release{}},
	} {
		got, log := look(t, write(t, tt.text), tt.own)
		if got != tt.want || strings.Contains(log, "there is a new version") != (got != Release{}) ||
			strings.Contains(log, "level=WARN") {
			t.Errorf("%q for %s: %+v, want %+v\n%s", tt.text, tt.own, got, tt.want, log)
		}
	}
}

func TestAFaultyTextIsAWarningAndNoVersion(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "first line",
		"\n0.3.0":                           "first line",
		"3":                                 "first line",
		"0.3":                               "first line",
		"vv0.3.0":                           "first line",
		"<html>":                            "first line",
		"0.3.0 now":                         "first line",
		"0.3.0\x00":                         "first line",
		"0.3.0\njavascript:alert(1)":        "second line",
		"0.3.0\nhttps:///path":              "second line",
		"0.3.0\nhttps://example.com/\u202e": "second line",
		"0.3.0\nhttps://example.com/a b":    "second line",
		"0.3.0\n" + strings.Repeat("\n", maxText): "more than 1024 bytes",
	} {
		got, log := look(t, write(t, text), own)
		if got != (Release{}) || !strings.Contains(log, "level=WARN") || !strings.Contains(log, want) {
			t.Errorf("%.40q: %+v, want a warning with %q\n%s", text, got, want, log)
		}
	}
	if got, log := look(t, Source{path: t.TempDir()}, own); got != (Release{}) || !strings.Contains(log, "regular") {
		t.Errorf("a folder: %+v\n%s", got, log)
	}
	gone := Source{path: filepath.Join(t.TempDir(), "version.txt")}
	if got, log := look(t, gone, own); got != (Release{}) || !strings.Contains(log, "level=INFO") {
		t.Errorf("no file: %+v\n%s", got, log)
	}
}

func TestTheSourceIsAFileOrASafeURL(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"version.txt":                     filepath.Join(filepath.Dir(program), "version.txt"),
		"../new/version.txt":              filepath.Join(filepath.Dir(program), "../new/version.txt"),
		"/srv/version.txt":                "/srv/version.txt",
		"https://example.com/version.txt": "https://example.com/version.txt",
		"http://127.0.0.1:80/version.txt": "http://127.0.0.1:80/version.txt",
		"http://localhost:80/version.txt": "http://localhost:80/version.txt",
		"http://example.com/version.txt":  "",
		"http://192.168.1.2/version.txt":  "",
		"ftp://example.com/version.txt":   "",
		"file:///srv/version.txt":         "",
		"https://me:pw@example.com/":      "",
		"https://example.com/?token=x":    "",
		"https://":                        "",
	} {
		s, err := ParseSource(value)
		if (err == nil) != (want != "") || err == nil && s.String() != want {
			t.Errorf("%s: %q, %v, want %q", value, s, err, want)
		}
	}
	if s, err := ParseSource(""); err != nil || s.On() {
		t.Errorf("the empty value: %+v, %v", s, err)
	}
}

// answer serves one handler and returns it as a source, with the number of requests.
func answer(t *testing.T, h http.HandlerFunc) (Source, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.Add(1); h(w, r) }))
	t.Cleanup(srv.Close)
	s, err := ParseSource(srv.URL + "/version.txt")
	if err != nil {
		t.Fatal(err)
	}
	return s, &n
}

func TestAURLIsAskedOnceAndNotFollowedElsewhere(t *testing.T) {
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	text := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	for _, tt := range []struct {
		name, warning string
		want          Release
		h             http.HandlerFunc
	}{
		{"newer", "", Release{Version: "0.3.0"}, text("0.3.0\n")},
		{"too large", "more than 1024 bytes", Release{}, text("0.3.0\n" + strings.Repeat("x\n", maxText))},
		{"missing", "404", Release{}, http.NotFound},
		{"another scheme", "from http to https", Release{}, http.RedirectHandler(tls.URL, http.StatusFound).ServeHTTP},
		{"another machine", "is not https", Release{},
			http.RedirectHandler("http://192.0.2.1/version.txt?secret", http.StatusFound).ServeHTTP},
	} {
		s, requests := answer(t, tt.h)
		got, log := look(t, s, own)
		if got != tt.want || requests.Load() != 1 || !strings.Contains(log, tt.warning) ||
			strings.Contains(log, "level=WARN") != (tt.warning != "") || strings.Contains(log, "secret") {
			t.Errorf("%s: %+v after %d requests, want %+v\n%s", tt.name, got, requests.Load(), tt.want, log)
		}
	}
}

func TestTheEndOfTheServerDoesNotWaitForAnAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, _ := answer(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if err := New(s, own, slog.New(slog.DiscardHandler)).Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestTheTextIsReadOnceADayAndAVersionIsLoggedOnce(t *testing.T) {
	s := write(t, "0.2.0")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := New(s, own, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		synctest.Wait()
		logged := func() int { return strings.Count(log.String(), "there is a new version") }
		for _, day := range []struct {
			text, want string
			logged     int
		}{
			{"0.3.0", "0.3.0", 1}, {"0.3.0", "0.3.0", 1}, {"nonsense", "0.3.0", 1}, {"0.2.0", "", 1},
			{"0.3.0", "0.3.0", 1}, {"0.4.0", "0.4.0", 2},
		} {
			before := w.Newer()
			if err := os.WriteFile(s.path, []byte(day.text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(every - time.Second) // fake clock
			synctest.Wait()
			if got := w.Newer(); got != before {
				t.Errorf("%+v: %+v before a day is over", day, got)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := w.Newer().Version; got != day.want || logged() != day.logged {
				t.Errorf("%+v: version %q, logged %d times", day, got, logged())
			}
		}
		cancel()
		<-done
	})
}

func TestABuildThatIsNoReleaseComparesNothing(t *testing.T) {
	for _, version := range []string{"be1695c7", "12345678", "dev", "", "v0.1.0-5-gbe1695c7",
		"v0.1.0-5-gbe1695c7-dirty", "v0.1.0-dirty"} {
		s, requests := answer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("9.0.0")) })
		var log bytes.Buffer
		w := New(s, version, slog.New(slog.NewTextHandler(&log, nil)))
		if err := w.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if w.Newer() != (Release{}) || requests.Load() != 0 || !strings.Contains(log.String(), "no release") {
			t.Errorf("%q: %+v after %d requests\n%s", version, w.Newer(), requests.Load(), log.String())
		}
	}
}

func TestNothingIsReadWithoutASource(t *testing.T) {
	var log bytes.Buffer
	w := New(Source{}, "dev", slog.New(slog.NewTextHandler(&log, nil)))
	if err := w.Run(t.Context()); err != nil || w.Newer() != (Release{}) || log.Len() > 0 {
		t.Errorf("%v, %+v, log %q", err, w.Newer(), log.String())
	}
}

// Whatever the text has, it is refused, or its version can be compared and its link is one visible word.
func FuzzText(f *testing.F) {
	for _, s := range []string{"0.2.0", "v1.2.3-rc.1+b\nhttps://example.com/x\n", "1.2", "1.2.3\nhttp://[::1]:80/%zz"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil && r != (Release{}) || err == nil && canonical(r.Version) != "v"+r.Version {
			t.Fatalf("%q: %+v, %v", text, r, err)
		}
		for _, c := range r.Version + r.Link {
			if c <= ' ' || c > '~' {
				t.Fatalf("%q: %+v", text, r)
			}
		}
	})
}
