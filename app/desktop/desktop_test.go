package desktop

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestLocale(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want variables
	}{
		{name: "nothing, as in a service", want: variables{"LC_NUMERIC": "C", "LANG": "en_US.UTF-8",
			"LC_MESSAGES": ""}},
		{name: "C.UTF-8, as in a container", env: map[string]string{"LANG": "C.UTF-8"},
			want: variables{"LC_NUMERIC": "C", "LANG": "en_US.UTF-8", "LC_MESSAGES": ""}},
		{name: "POSIX for all", env: map[string]string{"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"},
			want: variables{"LC_NUMERIC": "C", "LC_ALL": "", "LANG": "en_US.UTF-8", "LC_MESSAGES": "", "LC_CTYPE": ""}},
		{name: "a language stays", env: map[string]string{"LANG": "de_DE.UTF-8"}, want: variables{"LC_NUMERIC": "C"}},
		{name: "a language for all stays, but not for numbers",
			env:  map[string]string{"LC_ALL": "de_DE.UTF-8", "LANG": "C"},
			want: variables{"LC_NUMERIC": "C", "LC_ALL": "", "LANG": "de_DE.UTF-8", "LC_MESSAGES": "", "LC_CTYPE": ""}},
		{name: "the language of messages counts", env: map[string]string{"LC_MESSAGES": "zh_CN.UTF-8", "LANG": "C"},
			want: variables{"LC_NUMERIC": "C"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := localeFor(func(k string) string { return tt.env[k] }); !maps.Equal(got, tt.want) {
				t.Errorf("localeFor(%v) = %v, want %v", tt.env, got, tt.want)
			}
		})
	}
}

func TestMenuIsInTheUsersLanguage(t *testing.T) {
	for locale, want := range map[string]string{"": "Quit", "de_DE.UTF-8": "Quit", "zh_CN.UTF-8": "退出"} {
		if got := wordsFor(func(k string) string { return map[string]string{"LANG": locale}[k] }).quit; got != want {
			t.Errorf("the menu's last entry under LANG=%q is %q, want %q", locale, got, want)
		}
	}
}

func TestNotificationsAreInTheUsersLanguage(t *testing.T) {
	const failed = "load failed: model 'm' needs the input 'X'"
	for locale, want := range map[string]string{"de_DE.UTF-8": failed, "zh_CN.UTF-8": "加载失败：模型 'm' 需要输入 'X'"} {
		words := wordsFor(func(k string) string { return map[string]string{"LANG": locale}[k] })
		if got := words.notification(failed); got != want {
			t.Errorf("the notification under LANG=%q is %q, want %q", locale, got, want)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for ip, want := range map[string]string{"127.0.0.1": "http://127.0.0.1:8003", "::1": "http://localhost:8003",
		"127.0.0.2": "", "10.0.0.1": ""} {
		got, err := BaseURL(&net.TCPAddr{IP: net.ParseIP(ip), Port: 8003})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("BaseURL(%s) = %q, %v; want %q", ip, got, err, want)
		}
	}
}

func TestPageHandler(t *testing.T) {
	page := fstest.MapFS{"index.html": {Data: []byte("<p>page")}, "assets/a.js": {Data: []byte("script")}}
	var d drops
	h, err := pageHandler(page, "http://127.0.0.1:1", &d)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	picture := filepath.Join(dir, "seven 7.png")
	if err := os.WriteFile(picture, []byte("pixels"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, maxDropped+1)); err != nil {
		t.Fatal(err)
	}
	old := d.offer([]string{large})
	from := d.offer([]string{picture, dir, filepath.Join(dir, "gone"), large})
	for _, tt := range []struct {
		name, method, path string
		code               int
		want               string
	}{
		{"the page", "GET", "/", 200, "<p>page"},
		{"a file of it", "GET", "/assets/a.js", 200, "script"},
		{"where its interface is", "GET", "/config.js", 200, `window.__base = "http://127.0.0.1:1";`},
		{"the interface itself", "POST", "/api/imports", 405, "the interface is at http://127.0.0.1:1"},
		{"no interface here", "GET", "/api/models", 404, ""},
		{"a dropped file", "GET", from + "/0", 200, "pixels"},
		{"a dropped folder", "GET", from + "/1", 400, "is no file"},
		{"a dropped file that is gone", "GET", from + "/2", 404, "gone cannot be read"},
		{"a dropped file that is too large", "GET", from + "/3", 413, "large has 67108865 bytes"},
		{"no such file in the drop", "GET", from + "/4", 404, "not dropped"},
		{"a file of the drop before", "GET", old + "/0", 404, "not dropped"},
		{"any file", "GET", "/dropped/x/etc/hostname", 404, "not dropped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest(tt.method, tt.path, nil))
			if rec.Code != tt.code || !strings.Contains(rec.Body.String(), tt.want) {
				t.Errorf("%s %s = %d %q, want %d and %q", tt.method, tt.path, rec.Code, rec.Body, tt.code, tt.want)
			}
		})
	}
	if _, err := pageHandler(fstest.MapFS{}, "", &d); err == nil {
		t.Error("pageHandler without a page = nil error; the window would stay empty")
	}
}

func TestFirstCallOfThePageIsNoticed(t *testing.T) {
	calls := 0
	h := firstCall(http.NotFoundHandler(), func() { calls++ })
	for _, tt := range []struct {
		method, origin string
		want           int
	}{{"GET", "", 0}, {"GET", "http://127.0.0.1:8003", 0}, {"OPTIONS", pageOrigin, 0}, {"GET", pageOrigin, 1},
		{"GET", pageOrigin, 1}} {
		r := httptest.NewRequest(tt.method, "/api/models", nil)
		r.Header.Set("Origin", tt.origin)
		h.ServeHTTP(httptest.NewRecorder(), r)
		if calls != tt.want {
			t.Errorf("after %s from %q: %d calls, want %d", tt.method, tt.origin, calls, tt.want)
		}
	}
}

func TestNamesFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{
		"gone.onnx": true, "folder": true, "./gone": true, "lsit": false, "": false,
	} {
		if got := NamesFile(word); got != want {
			t.Errorf("NamesFile(%q) = %v, want %v", word, got, want)
		}
	}
}

func TestAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	model := filepath.Join(dir, "my model.onnx")
	if err := os.WriteFile(model, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Absolute([]string{"my model.onnx", model, "."})
	if want := []string{model, model, dir}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Absolute = %q, %v; want %q", got, err, want)
	}
	_, err = Absolute([]string{model, "gone.onnx"})
	if want := "gone.onnx cannot be opened: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("Absolute of a missing file = %v, want %s", err, want)
	}
}

func FuzzParseShow(f *testing.F) {
	f.Add(`{"files":["/m/a b.onnx"]}`)
	f.Add(`{"files":null}`)
	f.Add(`{"files":["m.onnx"]}`)
	f.Fuzz(func(t *testing.T, body string) {
		files, err := parseShow(strings.NewReader(body))
		relative := slices.ContainsFunc(files, func(p string) bool { return !filepath.IsAbs(p) })
		if relative || err != nil && files != nil {
			t.Errorf("parseShow(%q) = %q, %v; want absolute paths, or an error alone", body, files, err)
		}
	})
}

func TestHandover(t *testing.T) {
	dir := t.TempDir()
	shown := 0
	var opened []string
	host := NewHost()
	srv := httptest.NewServer(host.Wrap(http.NotFoundHandler(), func(files []string) {
		shown++
		opened = files
	}))
	defer srv.Close()
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}

	if err := ShowRunning(soon(), dir, nil); !errors.Is(err, ErrNoWindow) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ShowRunning before the first start = %v, want ErrNoWindow because there is no file", err)
	}
	if err := host.Announce(dir, srv.URL); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, handoverFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the hand-over file: %v, %v; want one that only its owner can read", info, err)
	}
	files := []string{"/m/a b.onnx", "/m/ü"}
	if err := ShowRunning(t.Context(), dir, files); err != nil || shown != 1 || !slices.Equal(opened, files) {
		t.Errorf("ShowRunning = %v, shown %d times with %q; want once with %q", err, shown, opened, files)
	}
	if err := ShowRunning(soon(), dir, []string{"m.onnx"}); !errors.Is(err, ErrNoWindow) || shown != 1 {
		t.Errorf("ShowRunning with a relative path = %v, shown %d times; want ErrNoWindow", err, shown)
	}

	for name, change := range map[string]func(*http.Request){
		"another secret": func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") },
		"no secret":      func(r *http.Request) { r.Header.Del("Authorization") },
		"a browser":      func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"a GET":          func(r *http.Request) { r.Method = "GET" },
	} {
		r := httptest.NewRequest("POST", showPath, nil)
		r.Header.Set("Authorization", "Bearer "+host.secret)
		change(r)
		rec := httptest.NewRecorder()
		host.Wrap(nil, func([]string) { shown++ }).ServeHTTP(rec, r)
		if rec.Code != http.StatusForbidden || shown != 1 {
			t.Errorf("%s: status %d, shown %d times; want 403 and no more than before", name, rec.Code, shown)
		}
	}

	// The file of a program that has ended may have an address where another program listens now.
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	defer other.Close()
	if err := host.Announce(dir, other.URL); err != nil {
		t.Fatal(err)
	}
	if err := ShowRunning(soon(), dir, nil); !errors.Is(err, ErrNoWindow) {
		t.Errorf("ShowRunning with another program at the address = %v, want ErrNoWindow", err)
	}
	if err := errors.Join(host.Withdraw(), host.Withdraw()); err != nil {
		t.Fatal(err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 0 {
		t.Errorf("left after Withdraw: %v", names)
	}
}

// A second start may come while the first one is still starting.
func TestHandoverWaitsForTheFirst(t *testing.T) {
	dir := t.TempDir()
	host := NewHost()
	shown := make(chan struct{}, 1)
	srv := httptest.NewServer(host.Wrap(http.NotFoundHandler(), func([]string) { shown <- struct{}{} }))
	defer srv.Close()
	result := make(chan error, 1)
	go func() { result <- ShowRunning(t.Context(), dir, nil) }()
	select {
	case err := <-result:
		t.Fatalf("ShowRunning returned %v before there was anything to ask", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := host.Announce(dir, srv.URL); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Errorf("ShowRunning = %v", err)
	}
	<-shown
}

func TestSave(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/models/m/archive":
			_, _ = io.WriteString(w, "zip")
		case "/api/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"no such model"}`)
		}
	}))
	defer srv.Close()
	for _, tt := range []struct {
		name string
		data []any
		want string // in the file; "old" stays there after an error
		err  string
	}{
		{name: "an archive", data: []any{map[string]any{"name": "m.zip", "path": "/api/models/m/archive"}},
			want: "zip"},
		{name: "bytes", data: []any{map[string]any{"name": "request.bin", "data": "AP8B"}}, want: "\x00\xff\x01"},
		{name: "what is not there", data: []any{map[string]any{"path": "/api/x"}}, want: "old", err: "no such model"},
		{name: "an answer that breaks off", data: []any{map[string]any{"path": "/api/cut"}}, want: "old",
			err: "unexpected EOF"},
		{name: "not the interface", data: []any{map[string]any{"path": "@evil.example/"}}, want: "old",
			err: "not below /api/"},
		{name: "no base64", data: []any{map[string]any{"data": "?"}}, want: "old", err: "a request to save"},
		{name: "nothing", want: "old", err: "0 parts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a file")
			if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := parseSave(tt.data)
			if err == nil {
				err = s.write(t.Context(), srv.URL, file)
			}
			if got, rerr := os.ReadFile(file); rerr != nil || string(got) != tt.want {
				t.Errorf("the file has %q, %v; want %q", got, rerr, tt.want)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("saving %v = %v, want %q", tt.data, err, tt.err)
			}
			if names, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(names) != 0 {
				t.Errorf("left over: %v", names)
			}
		})
	}
}
