// Package inference connects the console to the inference server of the same process.
//
// The package starts no goroutine.
package inference

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/rest"
)

// Server says how to reach the inference server over HTTP.
type Server struct {
	// Dial connects to it; nil: it is turned off.
	Dial func(ctx context.Context) (net.Conn, error)
	// Header is added to requests, such as the token that the server needs.
	Header http.Header
	// MaxBody is the largest body that it takes, in bytes; 0: not known.
	MaxBody int64
}

// Transport returns an HTTP transport that keeps up to idle connections open.
func (s *Server) Transport(idle int) *http.Transport {
	return &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx) },
		DisableCompression:  true, // the client decodes the response
		MaxIdleConnsPerHost: idle,
		IdleConnTimeout:     time.Minute,
	}
}

// Proxy passes inference requests of the page to the server, and its replies back unchanged. They take the same way as
// those of other clients: the page shows what a client gets.
type Proxy struct {
	server   Server
	visitors bool
	handler  http.Handler // nil: the server is turned off
}

// NewProxy makes a Proxy for the page.
func NewProxy(s Server) *Proxy { return newProxy(&Proxy{server: s}) }

// NewVisitorProxy makes a Proxy for the public page. Its requests cannot use shared memory, and only the headers that
// describe their content are passed on.
func NewVisitorProxy(s Server) *Proxy { return newProxy(&Proxy{server: s, visitors: true}) }

func newProxy(p *Proxy) *Proxy {
	s := &p.server
	if s.Dial != nil {
		p.handler = &httputil.ReverseProxy{
			Rewrite:        p.rewrite,
			Transport:      s.Transport(16),
			FlushInterval:  -1,
			ModifyResponse: removeCORS,
			ErrorHandler:   unavailable,
		}
	}
	return p
}

// Infer passes one request on.
func (p *Proxy) Infer(w http.ResponseWriter, r *http.Request) error {
	if p.handler == nil {
		return rest.Errorf(api.CodeUnavailable,
			"the inference server over HTTP is turned off; start without --allow-http=false to try models here")
	}
	// A browser reads the answer only when it has sent its body. This one is too large to wait for.
	if limit := p.server.MaxBody; limit > 0 && r.ContentLength/2 > limit {
		return rest.Errorf(api.CodeTooLarge, "request body is over the limit of %d bytes; raise it with "+
			"--http-max-input-size", limit)
	}
	p.handler.ServeHTTP(w, r)
	return nil
}

func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "localhost", "localhost"
	r.Out.URL.Path, r.Out.URL.RawPath, r.Out.URL.RawQuery = "", "", r.In.URL.RawQuery
	r.Out.URL.Opaque = inferPath(r.In.PathValue("name"), r.In.PathValue("version"))
	if p.visitors {
		maps.DeleteFunc(r.Out.Header, func(name string, _ []string) bool { return !slices.Contains(content, name) })
	}
	for name := range r.Out.Header { // the browser's own headers, which the server's origin check would refuse
		if name == "Origin" || name == "Referer" || name == "Cookie" || name == "X-Nereid" ||
			strings.HasPrefix(name, "Sec-") {
			r.Out.Header.Del(name)
		}
	}
	mark(r.Out.Header, p.server.Header)
	if p.visitors {
		r.Out.Header.Set("Nereid-Page", "kiosk")
	}
}

// content are the headers that describe a request's content.
var content = []string{"Accept", "Accept-Encoding", "Content-Encoding", "Content-Length", "Content-Type",
	"Inference-Header-Content-Length"}

// inferPath returns the path of inference requests; version may be empty.
func inferPath(model, version string) string {
	path := "/v2/models/" + url.PathEscape(model)
	if version != "" {
		path += "/versions/" + url.PathEscape(version)
	}
	return path + "/infer"
}

// mark adds the headers of a request that the page makes, and those that the server needs.
func mark(h, server http.Header) {
	h.Set("Nereid-Timing", "1")
	h.Set("Nereid-Page", "1")
	for name, values := range server {
		h[name] = values
	}
}

func removeCORS(r *http.Response) error {
	for name := range r.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			r.Header.Del(name)
		}
	}
	return nil
}

// unavailable replies in Triton's form.
func unavailable(w http.ResponseWriter, r *http.Request, err error) {
	switch ctx := r.Context(); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // of who called Infer
		rest.Write(w, http.StatusGatewayTimeout, map[string]string{"error": context.Cause(ctx).Error()})
		return
	case ctx.Err() != nil:
		return // the page has gone
	}
	rest.Write(w, http.StatusServiceUnavailable,
		map[string]string{"error": "the inference server does not answer: " + err.Error()})
}
