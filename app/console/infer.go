package console

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"nereid/app/console/api"
)

// inferHandler passes requests to the inference server, over connections that stay open, and its answers back as they
// are. The request goes through the same handler as a client's: what the page shows is what a client gets.
func (c *Console) inferHandler() http.Handler {
	if c.o.DialInference == nil {
		return nil
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "localhost", "localhost"
			path := "/v2/models/" + pathEscape(r.In.PathValue("name"))
			if v := r.In.PathValue("version"); v != "" {
				path += "/versions/" + pathEscape(v)
			}
			r.Out.URL.Path, r.Out.URL.RawPath, r.Out.URL.RawQuery = "", "", r.In.URL.RawQuery
			r.Out.URL.Opaque = path + "/infer"
			for name := range r.Out.Header { // the browser's own, which another origin's checks would refuse
				if name == "Origin" || name == "Referer" || name == "Cookie" || name == "X-Nereid" || strings.HasPrefix(name, "Sec-") {
					r.Out.Header.Del(name)
				}
			}
			r.Out.Header.Set("Nereid-Timing", "1")
			for name, values := range c.o.InferenceHeader {
				r.Out.Header[name] = values
			}
		},
		Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.o.DialInference(ctx) },
			DisableCompression:  true, // the answer is the page's to unpack
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     time.Minute,
		},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			for name := range r.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					r.Header.Del(name)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return // the page does not wait any more
			}
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "the inference server does not answer: " + err.Error()})
		},
	}
}

func (c *Console) postInfer(w http.ResponseWriter, r *http.Request) error {
	if c.infer == nil {
		return fail(api.CodeUnavailable, "the inference server over HTTP is turned off; start without --allow-http=false to try models here")
	}
	c.infer.ServeHTTP(w, r)
	return nil
}
