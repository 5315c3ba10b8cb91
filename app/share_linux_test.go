package app

import (
	"encoding/json"
	"net"
	"net/http"
	"testing"

	"nereid/engine/inferencepb"
)

func TestServersShareTheirPorts(t *testing.T) {
	both := []string{"--reuse-http-port=true", "--reuse-grpc-port=true"}
	port := func(r *rig, name string) string {
		_, p, err := net.SplitHostPort(r.at(name))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := runServer(t, "", append(both, "--id=a")...)
	same := append(both, "--id=b", "--http-port="+port(a, "http"), "--grpc-port="+port(a, "grpc"))
	b := runServer(t, "", same...)
	if a.at("http") != b.at("http") || a.at("grpc") != b.at("grpc") {
		t.Fatalf("listen at %s, %s and %s, %s", a.at("http"), a.at("grpc"), b.at("http"), b.at("grpc"))
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	overHTTP := func() string {
		status, body := ask(t, client, "GET", "http://"+a.at("http")+"/v2", "")
		var server struct{ Name string }
		if err := json.Unmarshal([]byte(body), &server); err != nil || status != 200 {
			t.Fatalf("status %d, %s: %v", status, body, err)
		}
		return server.Name
	}
	overGRPC := func() string {
		m, err := dialGRPC(t, a.at("grpc"), nil).ServerMetadata(t.Context(), &inferencepb.ServerMetadataRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return m.GetName()
	}
	// The kernel picks a socket by a hash of the connection: that 200 hit the same one happens once in 2^199 runs.
	reaches := func(name func() string) map[string]bool {
		seen := map[string]bool{}
		for range 200 {
			if seen[name()] = true; len(seen) == 2 {
				break
			}
		}
		return seen
	}
	for _, tt := range []struct {
		name string
		ask  func() string
	}{{"H030 G017 connections over HTTP reach both", overHTTP},
		{"H038 G017 connections over gRPC reach both", overGRPC}} {
		t.Run(tt.name, func(t *testing.T) {
			if seen := reaches(tt.ask); !seen["a"] || !seen["b"] {
				t.Errorf("only %v are reached", seen)
			}
		})
	}
	t.Run("H030 a server that does not say so is refused", func(t *testing.T) {
		c := load(t, "--http-port="+port(a, "http"), "--grpc-port=0", "--metrics-port=0", "--ui-port=0")
		if l, err := c.Listen.Open(); err == nil {
			l.Close()
			t.Error("it listens on the port of others")
		}
	})
	t.Run("G017 each has its models, and one that ends takes none along", func(t *testing.T) {
		if err := a.engine.UnloadModel(t.Context(), "good", false); err != nil {
			t.Fatal(err)
		}
		ready := func(r *rig) bool { ok, err := r.engine.ModelReady("good", -1); return ok && err == nil }
		if ready(a) || !ready(b) {
			t.Error("an unload in one server is seen in the other")
		}
		a.shutdown()
		for range 20 {
			if got := overHTTP(); got != "b" {
				t.Fatalf("after the end of a, %s answers", got)
			}
		}
	})
}
