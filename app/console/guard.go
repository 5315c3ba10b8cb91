package console

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"nereid/app/console/api"
)

// windowOrigins are the origins of a page in the native window, on Linux and macOS, and on Windows.
var windowOrigins = []string{"wails://wails", "wails://wails.localhost", "http://wails.localhost"}

// contentPolicy lets the page load only what this server gives it. Styles are written by scripts (the editor and the
// charts do), so inline ones are allowed; inline scripts are not.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; " +
	"font-src 'self'; connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard lets only requests through that come from this machine's own page or from a program:
//
//   - The Host header must be a loopback name or an allowed one. A site that points its own name at 127.0.0.1 (DNS
//     rebinding) fails here.
//   - An Origin header must be the console's own or, if there is a window, the window's.
//   - Browsers say with Sec-Fetch-Site where a request comes from; another site may only open the page.
//   - What changes something must have the header X-Nereid, which other sites cannot send without being asked first.
func (c *Console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Vary", "Origin")
		if !c.hostAllowed(r.Host) {
			writeJSON(w, http.StatusMisdirectedRequest, api.Error{Code: api.CodeForbidden, Error: "this server is not called " +
				quote(r.Host) + "; open it as 127.0.0.1 or localhost, or allow the name with --allowed-hosts"})
			return
		}
		origin, fromWindow := r.Header.Get("Origin"), false
		if origin != "" && !sameOrigin(origin, r.Host) {
			if fromWindow = c.o.Window && slices.Contains(windowOrigins, origin); !fromWindow {
				c.writeError(w, r, fail(api.CodeForbidden, "requests from the origin %s are not allowed", quote(origin)))
				return
			}
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", "Inference-Header-Content-Length, Server-Timing, Content-Disposition")
		}
		if r.Method == http.MethodOptions {
			if fromWindow {
				h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
				h.Set("Access-Control-Allow-Headers", "content-type, x-nereid, inference-header-content-length, accept-encoding, content-encoding")
				h.Set("Access-Control-Max-Age", "600")
			}
			w.WriteHeader(http.StatusNoContent)
			return
		}
		isAPI := strings.HasPrefix(r.URL.Path, "/api/")
		if site := r.Header.Get("Sec-Fetch-Site"); isAPI && !fromWindow && (site == "cross-site" || site == "same-site") {
			c.writeError(w, r, fail(api.CodeForbidden, "requests from other sites are not allowed"))
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get("X-Nereid") != "1" {
			c.writeError(w, r, fail(api.CodeForbidden, "a request that changes something must have the header \"X-Nereid: 1\""))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostAllowed checks a Host header, whatever its port.
func (c *Console) hostAllowed(host string) bool {
	name := hostName(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") && slices.Contains(c.o.AllowedHosts, name) {
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(c.o.AllowedHosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// hostName is a Host header without port and brackets, in lower case.
func hostName(host string) string {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(name, "."), "["), "]"))
}

// sameOrigin says whether origin is the page of this host. The scheme is not compared: behind a gateway it may be
// https, and the host decides.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}

// quote makes a header's value safe to show.
func quote(s string) string {
	if len(s) > 100 {
		s = s[:100] + "..."
	}
	return "\"" + strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s) + "\""
}
