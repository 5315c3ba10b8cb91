package console

import (
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/rest"
)

// windowOrigins are the origins of a page in the native window, on Linux and macOS, and on Windows.
var windowOrigins = []string{"wails://wails", "wails://wails.localhost", "http://wails.localhost"}

// contentPolicy lets the page load only what this server serves. Scripts of the editor and the charts write styles, so
// inline styles are allowed. Inline scripts are not.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard passes on only requests from the console's own page or from a program:
//
//   - The Host header must be a loopback name, the address that was connected to, or an allowed name. This refuses a
//     site whose name points at this machine (DNS rebinding).
//   - An Origin header must be the console's own or, if there is a window, the window's.
//   - Browsers say with Sec-Fetch-Site where a request comes from. Another site may only open the page.
//   - A request that changes something must have the header X-Nereid. A browser sends it for another site only after
//     asking the console, which refuses.
//   - Entry must let the client in, because other users of this machine can reach the port. The page's files are open.
//     What a client that was let in may do is decided by each route (rest.Endpoint.For).
type guard struct {
	next         http.Handler
	allowedHosts []string // host names in addition to the loopback ones
	window       bool     // allows the origins of the native window
	entry        Entry    // nil: everybody on this machine may use the interface
	log          *slog.Logger
}

// ServeHTTP checks a request and passes it on.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Vary", "Origin, Accept-Encoding")
	if !g.hostAllowed(r) {
		rest.Write(w, http.StatusMisdirectedRequest,
			api.Error{Code: api.CodeForbidden, Error: "this server is not called " +
				rest.Quote(r.Host) + "; open it as 127.0.0.1 or localhost, or allow the name with --allowed-hosts"})
		return
	}
	origin := r.Header.Get("Origin")
	fromWindow := g.window && slices.Contains(windowOrigins, origin)
	if origin != "" && !sameOrigin(origin, r.Host) {
		if !fromWindow {
			g.refuse(w, r, "requests from the origin %s are not allowed", rest.Quote(origin))
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Inference-Header-Content-Length, Server-Timing, Content-Disposition")
	}
	if r.Method == http.MethodOptions {
		if fromWindow {
			h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
			h.Set("Access-Control-Allow-Headers",
				"content-type, x-nereid, inference-header-content-length, accept-encoding, content-encoding")
			h.Set("Access-Control-Max-Age", "600")
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	isAPI, site := strings.HasPrefix(r.URL.Path, "/api/"), r.Header.Get("Sec-Fetch-Site")
	if isAPI && !fromWindow && (site == "cross-site" || site == "same-site") {
		g.refuse(w, r, "requests from other sites are not allowed")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get("X-Nereid") != "1" {
		g.refuse(w, r, "a request that changes something must have the header \"X-Nereid: 1\"")
		return
	}
	if isAPI && r.URL.Path != sessionPath && g.entry != nil {
		scope, err := g.entry.Check(r)
		if err != nil {
			rest.WriteError(w, r, rest.Errorf(api.CodeUnauthenticated, "%v", err), g.log)
			return
		}
		r = rest.WithScope(r, scope)
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) refuse(w http.ResponseWriter, r *http.Request, format string, args ...any) {
	rest.WriteError(w, r, rest.Errorf(api.CodeForbidden, format, args...), g.log)
}

// hostAllowed reports whether a request's Host header is allowed, with any port.
func (g *guard) hostAllowed(r *http.Request) bool {
	name := hostName(r.Host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") && slices.Contains(g.allowedHosts, name) {
		return true
	}
	if ip := net.ParseIP(name); ip != nil {
		at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if ip.IsLoopback() || ok && ip.Equal(at.IP) {
			return true
		}
	}
	return slices.ContainsFunc(g.allowedHosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// hostName returns a Host header without port and brackets, in lower case. What is no number is no port: the host of
// "localhost:80@evil.example" is behind the @.
func hostName(host string) string {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil && strings.Trim(port, "0123456789") == "" {
		name = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(name, "."), "["), "]"))
}

// sameOrigin reports whether origin is the page of this host. The scheme may differ: behind a gateway it may be https.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}
