package desktop

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
)

// pageOrigin is the origin of the page in the window.
const pageOrigin = "wails://wails"

// BaseURL is the URL of the console that listens on addr, for the page in the window. The content security policy of
// the page allows 127.0.0.1 and localhost only, so other loopback addresses are an error.
func BaseURL(addr net.Addr) (string, error) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return "", fmt.Errorf("the window cannot reach the console at %s, which is no TCP address", addr)
	}
	switch tcp.IP.String() {
	case "127.0.0.1":
		return fmt.Sprintf("http://127.0.0.1:%d", tcp.Port), nil
	case "::1":
		return fmt.Sprintf("http://localhost:%d", tcp.Port), nil
	}
	return "", fmt.Errorf("--ui-address: the window reaches the GUI only at 127.0.0.1, ::1 or localhost, and not at %s",
		tcp.IP)
}

// pageHandler serves the window's requests: the files of the page; /config.js, which sets base as the URL of the
// console; and below /dropped/ the files that were dropped on the window.
func pageHandler(page fs.FS, base string, dropped http.Handler) (http.Handler, error) {
	if _, err := fs.Stat(page, "index.html"); err != nil {
		return nil, fmt.Errorf("this program was built without the page, and a window would stay empty; build it "+
			"with make desktop: %w", err)
	}
	text, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	script := fmt.Appendf(nil, "window.__base = %s;\n", text)
	files := http.FileServerFS(page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "the window's own origin has only the page's files; the interface is at "+base,
				http.StatusMethodNotAllowed)
		case r.URL.Path == "/config.js":
			h.Set("Content-Type", "text/javascript; charset=utf-8")
			_, _ = w.Write(script) // it fails only if the page has gone
		case strings.HasPrefix(r.URL.Path, "/dropped/"):
			dropped.ServeHTTP(w, r)
		default:
			files.ServeHTTP(w, r)
		}
	}), nil
}

// firstCall passes all requests to next. It calls f once, when the page in the window makes its first call.
func firstCall(next http.Handler, f func()) http.Handler {
	var once sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("Origin") == pageOrigin {
			once.Do(f)
		}
		next.ServeHTTP(w, r)
	})
}
