package app

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/app/certs"
	"nereid/app/certs/certstest"
	"nereid/app/options"
	"nereid/engine/inferencepb"
)

// runSecure starts a server with TLS everywhere, mutual or not.
func runSecure(t *testing.T, authority *certstest.Authority, l certstest.Leaf, mutual bool, args ...string) (r *rig,
	certFile, keyFile string) {
	t.Helper()
	cert, key, root := authority.Write(t, t.TempDir(), l)
	use := "-use-ssl=true"
	if mutual {
		use = "-use-ssl-mutual=true"
	}
	for _, p := range []string{"http", "grpc"} {
		args = append(args, "--"+p+use, "--"+p+"-server-cert="+cert, "--"+p+"-server-key="+key,
			"--"+p+"-root-cert="+root)
	}
	return runServer(t, "", append(args, "--metrics-use-ssl=1", "--ui-use-ssl=1")...), cert, key
}

// shake connects to every endpoint with a client's configuration and returns the error of each. With TLS 1.3 a client
// learns only from the first response that its certificate is refused, so shake reads one.
func shake(t *testing.T, r *rig, client *tls.Config) map[string]error {
	t.Helper()
	out := map[string]error{}
	for name, path := range map[string]string{"http": "/v2", "metrics": "/metrics", "ui": "/"} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: client.Clone()}, Timeout: time.Minute}
		resp, err := c.Get("https://" + r.at(name) + path)
		if err == nil {
			resp.Body.Close()
		}
		c.CloseIdleConnections()
		out[name] = err
	}
	grpc := dialGRPC(t, r.at("grpc"), credentials.NewTLS(client.Clone()))
	_, out["grpc"] = grpc.ServerReady(t.Context(), &inferencepb.ServerReadyRequest{})
	return out
}

// H10: every endpoint accepts and refuses the same TLS clients.
func TestH10_TLS(t *testing.T) {
	authority, other := certstest.NewAuthority(t), certstest.NewAuthority(t)
	trust := func(change func(*tls.Config)) *tls.Config {
		c := &tls.Config{RootCAs: authority.Pool}
		if change != nil {
			change(c)
		}
		return c
	}
	shows := func(pair tls.Certificate) *tls.Config {
		return trust(func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		})
	}
	for _, tt := range []struct {
		name   string
		server certstest.Leaf
		mutual bool
		client *tls.Config
		want   string // part of the refusal; "": it passes
		ui     bool   // the GUI accepts it: browsers have no certificates
	}{
		{name: "B043 B074 TLS", client: trust(nil)},
		{name: "TLS 1.2", client: trust(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })},
		{name: "H10 TLS 1.1", client: trust(func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10,
				tls.VersionTLS11
		}), want: "protocol version"},
		{name: "H10 TLS 1.0", client: trust(func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10,
				tls.VersionTLS10
		}), want: "protocol version"},
		{name: "H10 expired", server: certstest.Leaf{Expired: true}, client: trust(nil), want: "expired"},
		{name: "H10 wrong host", server: certstest.Leaf{Hosts: []string{"other.example"}}, client: trust(nil),
			want: "doesn't contain any IP SANs"},
		{name: "H10 an authority that the client does not know", client: &tls.Config{RootCAs: other.Pool},
			want: "unknown authority"},
		{name: "B074 mutual TLS", mutual: true, client: shows(authority.Pair(t, certstest.Leaf{}))},
		{name: "H10 no client certificate", mutual: true, client: trust(nil), want: "certificate required", ui: true},
		{name: "H10 expired client certificate", mutual: true,
			client: shows(authority.Pair(t, certstest.Leaf{Expired: true})), want: "expired certificate", ui: true},
		{name: "H10 client certificate of another authority", mutual: true,
			client: shows(other.Pair(t, certstest.Leaf{})), want: "unknown certificate authority", ui: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := runSecure(t, authority, tt.server, tt.mutual)
			for endpoint, err := range shake(t, r, tt.client) {
				switch {
				case tt.want == "" || tt.ui && endpoint == "ui":
					if err != nil {
						t.Errorf("%s: %v", endpoint, err)
					}
				// which often says no more than that the connection ended
				case endpoint == "grpc" && grpcstatus.Code(err) == codes.Unavailable:
				case err == nil || !strings.Contains(err.Error(), tt.want) &&
					!strings.Contains(err.Error(), "connection reset"):
					t.Errorf("%s: %v, want a refusal with %q", endpoint, err, tt.want)
				}
			}
		})
	}
}

// H10: both protocols use a renewed certificate without a restart. Open connections stay.
func TestH10_RenewalInARunningServer(t *testing.T) {
	authority := certstest.NewAuthority(t)
	r, cert, key := runSecure(t, authority, certstest.Leaf{Name: "first"}, false)
	open, err := tls.Dial("tcp", r.at("http"), &tls.Config{RootCAs: authority.Pool})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	c, k := authority.Issue(t, certstest.Leaf{Name: "second"})
	for name, b := range map[string][]byte{cert: c, key: k} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, endpoint := range []string{"http", "grpc", "metrics", "ui"} {
		deadline := time.Now().Add(time.Minute)
		for shown := ""; shown != "second"; {
			conn, err := tls.Dial("tcp", r.at(endpoint), &tls.Config{RootCAs: authority.Pool,
				NextProtos: []string{"h2", "http/1.1"}})
			if err != nil {
				t.Fatal(err)
			}
			shown = conn.ConnectionState().PeerCertificates[0].Subject.CommonName
			conn.Close()
			if time.Now().After(deadline) {
				t.Fatalf("%s shows the certificate %q a minute after the renewal", endpoint, shown)
			}
		}
	}
	if _, err := open.Write([]byte("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
		t.Error(err)
	}
	if n, err := open.Read(make([]byte, 100)); n == 0 {
		t.Errorf("the open connection ended with the renewal: %v", err)
	}
}

// The page can send requests to an inference server that demands a certificate of every client.
func TestThePageTriesModelsUnderMutualTLS(t *testing.T) {
	authority := certstest.NewAuthority(t)
	r, _, _ := runSecure(t, authority, certstest.Leaf{}, true)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool}}}
	defer client.CloseIdleConnections()
	for range 2 {
		code, text := ask(t, client, "POST", "https://"+r.at("ui")+"/api/infer/good", inferGood, "X-Nereid: 1")
		if code != 200 || !strings.Contains(text, "1.5") {
			t.Errorf("answer %d %s", code, text)
		}
	}
	if code, text := ask(t, client, "GET", "https://"+r.at("ui")+"/api/server", ""); code != 200 ||
		!strings.Contains(text, `"tls":["http","grpc","metrics","console"]`) {
		t.Errorf("the page hears %d %s, want which addresses speak TLS", code, text)
	}
}

func TestTLSFilesAreChecked(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--http-use-ssl=1", "--http-server-cert is missing"},
		{"--grpc-use-ssl-mutual=1", "--grpc-root-cert is missing"},
		{"--metrics-use-ssl=1", "--http-server-key is missing"},
	} {
		if _, err := options.Load(false, []string{tt.args, "--data-dir=x"}, none); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
	c := options.Default(false)
	c.Listen.HTTP.TLS, c.TLS.HTTP = true, certs.Files{Cert: "/nonexistent", Key: "/nonexistent"}
	f := &fronts{c: c, log: slog.New(slog.DiscardHandler)}
	if err := f.openTLS(); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("openTLS = %v", err)
	}
}

// H15: the GUI on an address of the network lets in who has an admin token, and no program of this machine without one.
func TestH15_TheGUIOnTheNetworkNeedsAToken(t *testing.T) {
	addresses := reachableAddresses()
	if len(addresses) == 0 {
		t.Skip("this machine has no address but loopback")
	}
	cert, key, _ := certstest.NewAuthority(t).Write(t, t.TempDir(), certstest.Leaf{})
	r := runServer(t, "secret", "--ui-address=0.0.0.0", "--ui-use-ssl=1", "--http-server-cert="+cert,
		"--http-server-key="+key)
	_, port, err := net.SplitHostPort(r.at("ui"))
	if err != nil {
		t.Fatal(err)
	}
	at := net.JoinHostPort(addresses[0].String(), port)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for _, tt := range []struct {
		name, path, host, token string
		want                    int
	}{
		{"the page", "/", at, "", http.StatusOK},
		{"no token", "/api/server", at, "", http.StatusUnauthorized},
		{"a wrong token", "/api/server", at, "guessed", http.StatusUnauthorized},
		{"the token", "/api/server", at, "secret", http.StatusOK},
		{"a name that is not allowed", "/api/server", "evil.example", "secret", http.StatusMisdirectedRequest},
		{"an address of another machine", "/api/server", "192.0.2.77", "secret", http.StatusMisdirectedRequest},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if req.Host = tt.host; tt.token != "" {
			req.Header.Set("Authorization", tt.token)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", tt.name, resp.Status, tt.want)
		}
	}
}
