package httpapi

import (
	"net"
	"net/netip"
	"strings"

	"nereid/engine/status"
)

// Access is what Options.Authorize decides on. It and its strings are views of the connection's memory, valid until
// Authorize returns.
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

// Denied is the error by which Authorize chooses the status and the text of the refusal.
type Denied struct {
	Status int // 401 or 403
	Text   string
}

// Error returns the text.
func (d *Denied) Error() string { return d.Text }

// checkAccess decides before the body is read. Errors are *Denied or coded errors.
func (s *Server) checkAccess(x *exchange) error {
	if s.opt.AllowedHosts != nil && len(x.host) > 0 && !s.hostAllowed(x.host) {
		return &Denied{Status: 421, Text: "host '" + strings.ToValidUTF8(string(x.host), "?") +
			"' is not served here; name it in --allowed-hosts if it should be"}
	}
	if !x.safeMethod() {
		if len(x.origin) > 0 && !s.originAllowed(x) {
			return &Denied{Status: 403, Text: "requests from origin '" + strings.ToValidUTF8(string(x.origin), "?") +
				"' are not accepted"}
		}
		if len(x.origin) == 0 && string(x.fetchSite) == "cross-site" {
			return &Denied{Status: 403, Text: "requests from pages of other sites are not accepted"}
		}
	}
	if s.opt.Authorize != nil {
		x.access = Access{
			Group: x.route.endpoint.group(), Method: view(x.method), Path: view(x.path), Remote: x.conn.RemoteAddr(),
			Authorization: view(x.authorization), x: x,
		}
		if err := s.opt.Authorize(&x.access); err != nil {
			return err
		}
	}
	group := x.route.endpoint.group()
	if name := s.opt.Restricted.Header(group); name != "" && !s.opt.Restricted.Opens(group, x.header(name)) {
		return &Denied{Status: 403, Text: "This API is restricted, expecting header '" + name + "'"}
	}
	return nil
}

func (s *Server) hostAllowed(host []byte) bool { return HostAllowed(string(host), s.opt.AllowedHosts) }

// HostAllowed accepts, as Host header, literal addresses and localhost, which no foreign name can be made to mean, and
// the listed names; "*" allows all, a nil list too.
func HostAllowed(host string, allowed []string) bool {
	if allowed == nil || host == "" {
		return true
	}
	name := hostName(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	for _, h := range allowed {
		if h == "*" || strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

// hostName cuts the port and the brackets off a Host header.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// originAllowed accepts the page's own origin (same host and port) and the listed ones.
func (s *Server) originAllowed(x *exchange) bool {
	origin := string(x.origin)
	if _, host, ok := strings.Cut(origin, "://"); ok && strings.EqualFold(host, string(x.host)) {
		return true
	}
	return s.originListed(x.origin)
}

// httpStatus maps Triton's codes.
func httpStatus(err error) int {
	switch status.CodeOf(err) {
	case status.Internal:
		return 500
	case status.NotFound:
		return 404
	case status.Unavailable:
		return 503
	case status.Unsupported:
		return 501
	}
	return 400
}
