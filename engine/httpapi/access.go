package httpapi

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Access is a request that Options.Authorize decides on. It and its strings are views of the connection's memory, valid
// until Authorize returns.
type Access struct {
	Group  Group
	Method string
	Path   string // as sent, with the base path, without the query
	Remote net.Addr
	// Authorization is the header of that name: "" if there is none.
	Authorization string
	x             *exchange
}

// Header returns the value of any header of the request, "" if there is none. The name is not case-sensitive.
func (a *Access) Header(name string) string { return a.x.header(name) }

// Denied is an error of Options.Authorize that chooses the status and the text of the reply.
type Denied struct {
	Status int // 401 or 403
	Text   string
}

// Error returns the text.
func (d *Denied) Error() string { return d.Text }

// accessPolicy decides who may use the server.
type accessPolicy struct{ opt *Options }

// check decides on a request before its body is read. Errors are *Denied or those of Options.Authorize.
func (p accessPolicy) check(x *exchange) error {
	if !p.hostAllowed(x) {
		return &Denied{Status: 421, Text: "host '" + strings.ToValidUTF8(string(x.host), "?") +
			"' is not served here; name it in --allowed-hosts if it should be"}
	}
	if !x.safeMethod() {
		if len(x.origin) > 0 && !p.originAllowed(x) {
			return &Denied{Status: 403, Text: "requests from origin '" + strings.ToValidUTF8(string(x.origin), "?") +
				"' are not accepted"}
		}
		if site := string(x.fetchSite); len(x.origin) == 0 && (site == "cross-site" || site == "same-site") {
			return &Denied{Status: 403, Text: "requests from pages of other sites are not accepted"}
		}
	}
	if p.opt.Authorize != nil {
		x.access = Access{
			Group: x.route.group, Method: view(x.method), Path: view(x.path), Remote: x.conn.RemoteAddr(),
			Authorization: view(x.authorization), x: x,
		}
		if err := p.opt.Authorize(&x.access); err != nil {
			return err
		}
	}
	group := x.route.group
	if name := p.opt.Restricted.Header(group); name != "" && !p.opt.Restricted.Opens(group, x.header(name)) {
		return &Denied{Status: 403, Text: "This API is restricted, expecting header '" + name + "'"}
	}
	return nil
}

// deny answers a request that check refused.
func (x *exchange) deny(err error) {
	code := 403
	var d *Denied
	if errors.As(err, &d) {
		code = d.Status
	}
	x.denied, x.challenge = true, code == 401
	x.closeAfter = x.challenge // without a token a client does not hold a connection
	x.fail(code, typeText, err.Error())
}

func (p accessPolicy) hostAllowed(x *exchange) bool {
	return p.opt.AllowedHosts == nil || HostAllowed(string(x.host), p.opt.AllowedHosts)
}

// HostAllowed reports whether a Host header is served: an address or localhost, which no foreign name can be made to
// mean, or one of the allowed names. "*" allows all, and so does a nil list.
func HostAllowed(host string, allowed []string) bool {
	if allowed == nil || host == "" {
		return true
	}
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil && isNumber(port) {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return slices.ContainsFunc(allowed, func(h string) bool { return h == "*" || strings.EqualFold(h, name) })
}

// isNumber reports whether a port has only digits. "localhost:80@evil.example" has none: its host is behind the @.
func isNumber(port string) bool { return strings.Trim(port, "0123456789") == "" }

// originAllowed accepts the page's own origin (same host and port) and the listed ones.
func (p accessPolicy) originAllowed(x *exchange) bool {
	_, host, ok := strings.Cut(string(x.origin), "://")
	return ok && strings.EqualFold(host, string(x.host)) || p.originListed(x)
}

// originListed reports whether the request is from a page of Options.AllowedOrigins.
func (p accessPolicy) originListed(x *exchange) bool {
	return slices.ContainsFunc(p.opt.AllowedOrigins, func(o string) bool {
		return strings.EqualFold(o,
			view(x.origin))
	})
}

// exposedHeaders are the headers of replies that a page of an allowed origin may read.
const exposedHeaders = "Inference-Header-Content-Length, Content-Encoding, Server-Timing, Endpoint-Load-Metrics"

// preflight notes that the reply is for a page of an allowed foreign origin. If the request is a preflight, it
// answers it and returns true: preflights have no token. Pages of other origins get no CORS headers. Format: the
// fetch standard's CORS protocol.
func (p accessPolicy) preflight(x *exchange) (done bool) {
	if !p.originListed(x) {
		return false
	}
	x.corsOrigin = string(x.origin)
	if !x.is("OPTIONS") || len(x.headers.Peek("Access-Control-Request-Method")) == 0 || !p.hostAllowed(x) {
		return false
	}
	x.isPreflight = true
	x.empty(204, "")
	return true
}

// corsHeaders calls set for each header that the reply to a page of an allowed origin needs.
func corsHeaders(x *exchange, set func(name, value string)) {
	set("Access-Control-Allow-Origin", x.corsOrigin)
	set("Vary", "Origin")
	if !x.isPreflight {
		set("Access-Control-Expose-Headers", exposedHeaders)
		return
	}
	set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	if h := x.header("Access-Control-Request-Headers"); h != "" {
		set("Access-Control-Allow-Headers", h)
	}
	// The server may be on the user's machine and the page on the internet.
	if x.header("Access-Control-Request-Private-Network") == "true" {
		set("Access-Control-Allow-Private-Network", "true")
	}
	set("Access-Control-Max-Age", "600")
}
