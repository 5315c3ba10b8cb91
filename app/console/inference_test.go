package console_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"nereid/app/console"
	"nereid/engine"
)

func TestInferPassesThrough(t *testing.T) {
	var got *http.Request
	body := ""
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		b := make([]byte, 100)
		n, _ := r.Body.Read(b)
		body = string(b[:n])
		w.Header().Set("Inference-Header-Content-Length", "7")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"as Triton says it"}`)
	}))
	defer back.Close()
	r := newRig(t, engine.ModeExplicit, func(o *console.Options) {
		o.Inference.Header = http.Header{"Authorization": {"Bearer t"}}
		o.Inference.Dial = func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", back.Listener.Addr().String())
		}
	})
	r.Headers.Set("Origin", r.URL)
	r.Headers.Set("Inference-Header-Content-Length", "5")
	code, out := r.Call("POST", "/api/infer/a%20model%2Fx/versions/3", strings.NewReader("12345"))
	if code != 400 || string(out) != `{"error":"as Triton says it"}` || body != "12345" {
		t.Errorf("infer = %d %s with body %q", code, out, body)
	}
	if got.RequestURI != "/v2/models/a%20model%2Fx/versions/3/infer" || got.Host != "localhost" ||
		got.Header.Get("Origin") != "" ||
		got.Header.Get("X-Nereid") != "" || got.Header.Get("Inference-Header-Content-Length") != "5" ||
		got.Header.Get("Authorization") != "Bearer t" {
		t.Errorf("the request that arrives: %s %s %v", got.Host, got.RequestURI, got.Header)
	}
	off := newRig(t, engine.ModeExplicit)
	if code, out := off.Call("POST", "/api/infer/ready", strings.NewReader("{}")); code != 503 {
		t.Errorf("infer without a server = %d %s, want 503", code, out)
	}
}
