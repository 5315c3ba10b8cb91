package httpapi

import "strings"

// exposedHeaders are the headers of replies that a page of an allowed origin may read.
const exposedHeaders = "Inference-Header-Content-Length, Content-Encoding, Server-Timing, Endpoint-Load-Metrics"

// cors notes that the reply is for a page of an allowed foreign origin. It returns true for a preflight of one, which it
// answers: preflights carry no token. Unknown origins get nothing, not even the word that they are unknown.
// Format: the fetch standard's CORS protocol.
func (s *Server) cors(x *exchange) (done bool) {
	if !s.originListed(x.origin) {
		return false
	}
	x.corsOrigin = string(x.origin)
	if !x.is("OPTIONS") || len(x.headers.Peek("Access-Control-Request-Method")) == 0 {
		return false
	}
	if s.opt.AllowedHosts != nil && len(x.host) > 0 && !s.hostAllowed(x.host) {
		return false // checkAccess says so
	}
	s.readAway(x)
	x.preflight = true
	x.empty(204, "")
	return true
}

// originListed reports whether an origin is one of Options.AllowedOrigins.
func (s *Server) originListed(origin []byte) bool {
	for _, o := range s.opt.AllowedOrigins {
		if strings.EqualFold(o, view(origin)) {
			return true
		}
	}
	return false
}

// corsHeaders calls set with the headers that the reply of an allowed origin's page needs.
func corsHeaders(x *exchange, set func(name, value string)) {
	set("Access-Control-Allow-Origin", x.corsOrigin)
	set("Vary", "Origin")
	if !x.preflight {
		set("Access-Control-Expose-Headers", exposedHeaders)
		return
	}
	set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	if h := x.header("Access-Control-Request-Headers"); h != "" {
		set("Access-Control-Allow-Headers", h)
	}
	if x.header("Access-Control-Request-Private-Network") == "true" { // this server is on the user's machine, the page is not
		set("Access-Control-Allow-Private-Network", "true")
	}
	set("Access-Control-Max-Age", "600")
}
