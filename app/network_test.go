package app

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"nereid/app/access"
	"nereid/app/console/api"
	"nereid/app/options"
	"nereid/engine/inferencepb"
	"nereid/engine/shm"
)

// B080: the page opens the server on another address while it runs, beside the loopback listeners, and closes it again.
// 127.0.0.2 stands for an address of the network: it is an address of this machine on which nothing listens.
func TestThePageOpensTheServerToTheNetwork(t *testing.T) {
	dir := t.TempDir()
	r := runServer(t, "", "--data-dir="+dir)
	other := netip.MustParseAddr("127.0.0.2")
	r.network.candidates = func() []netip.Addr { return []netip.Addr{other} }
	put := func(r *rig, body string) (int, api.Access) {
		t.Helper()
		code, text := ask(t, http.DefaultClient, "PUT", "http://"+r.at("ui")+"/api/access/network", body, "X-Nereid: 1")
		var out api.Access
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return code, out
	}
	if code, _ := put(r, `{"open":true}`); code != 409 {
		t.Errorf("H7 opened without a token: %d", code)
	}
	token := r.makeToken(t, "phone", access.Infer)
	if code, _ := put(r, `{"open":true,"address":"8.8.8.8"}`); code != 409 {
		t.Errorf("opened on a foreign address: %d", code)
	}
	local, err := net.Dial("tcp", r.at("http"))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	regions := r.engine.SharedMemory()
	if !regions.Allows(shm.System) {
		t.Error("H086 clients on this machine cannot share memory")
	}
	code, state := put(r, `{"open":true,"address":""}`)
	if code != 200 || !state.Network.Open || len(state.Network.Reached) != 3 || len(state.Network.Problems) > 0 {
		t.Fatalf("opening = %d %+v", code, state)
	}
	urls := map[string]string{}
	for _, u := range state.Network.Reached {
		urls[u.Service] = u.URL
	}
	if !strings.HasPrefix(urls["http"], "http://127.0.0.2:") || !strings.HasSuffix(urls["metrics"], "/metrics") {
		t.Errorf("addresses %v", urls)
	}
	t.Run("B080 every protocol answers on the other address, with a token", func(t *testing.T) {
		for _, url := range []string{urls["http"] + "/v2", urls["metrics"]} {
			if code, _ := get(t, "GET", url); code != 401 {
				t.Errorf("H7 %s without a token = %d", url, code)
			}
			if code, text := get(t, "GET", url, "Authorization: "+token); code != 200 {
				t.Errorf("%s = %d %s", url, code, text)
			}
		}
		client := dialGRPC(t, strings.TrimPrefix(urls["grpc"], "grpc://"), nil)
		_, err := client.ModelInfer(t.Context(), inferRequest())
		wantCode(t, "ModelInfer without a token", err, 401)
		_, err = client.ModelInfer(withToken(t.Context(), token), inferRequest())
		wantCode(t, "ModelInfer", err, 200)
		if _, err := net.Dial("tcp", strings.Replace(r.at("ui"), "127.0.0.1", "127.0.0.2", 1)); err == nil {
			t.Error("the console is open too")
		}
	})
	if regions.Allows(shm.System) {
		t.Error("H086 clients can share memory while other machines are served")
	}
	t.Run("a connection on loopback stays", func(t *testing.T) {
		if _, err := io.WriteString(local,
			"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: "+token+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if resp, err := http.ReadResponse(bufio.NewReader(local), nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("answer %v, %v", resp, err)
		}
	})
	t.Run("H7 the last token's end opens nothing", func(t *testing.T) {
		gone := r.makeToken(t, "gone", access.Infer)
		if _, err := r.tokens.Revoke(t.Context(), "phone"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.tokens.Revoke(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{"", gone, token} {
			if code, _ := get(t, "GET", urls["http"]+"/v2", "Authorization: "+value); code != 401 {
				t.Errorf("token %q is answered %d", value, code)
			}
		}
		token = r.makeToken(t, "new", access.Infer)
	})
	if !r.fronts.addresses().Token {
		t.Error("the page does not know that calls need a token")
	}
	remote, err := net.Dial("tcp", strings.TrimPrefix(urls["http"], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	if code, state := put(r, `{"open":false,"localFree":true}`); code != 200 || state.Network.Open ||
		len(state.Network.Reached) != 0 || !state.Network.LocalFree {
		t.Errorf("closing = %d %+v", code, state)
	}
	if !regions.Allows(shm.System) {
		t.Error("H086 clients cannot share memory after the network was closed")
	}
	if n, err := remote.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a connection from the network lives on: %d, %v", n, err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(urls["http"], "http://")); err == nil {
		t.Error("the other address still listens")
	}
	if code, _ := get(t, "GET", "http://"+r.at("http")+"/v2"); code != 200 || r.fronts.addresses().Token {
		t.Errorf("a program on this machine, which needs no token, is answered %d; the page says %+v", code,
			r.fronts.addresses())
	}
}

// The choice counts at the next start, unless options override it or there is no token any more.
func TestTheNetworkChoiceCountsAtTheNextStart_B080(t *testing.T) {
	dir := t.TempDir()
	first := runServer(t, "", "--data-dir="+dir)
	first.network.candidates = func() []netip.Addr { return nil }
	first.makeToken(t, "a", access.Infer)
	if err := first.network.Set(t.Context(), api.SetNetwork{Open: true}); err != nil {
		t.Fatal(err)
	}
	if s := first.network.State(); !s.Open || len(s.Problems) != 1 {
		t.Errorf("without an address: %+v, want it open with the problem reported", s)
	}

	s := &server{c: load(t, "--data-dir=x"), log: first.log, data: first.data, store: first.store} // the next start
	if err := s.openAccess(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !s.network.choice.Open || !s.tokens.Required() {
		t.Errorf("the next start: %+v, asks for a token %v", s.network.choice, s.tokens.Required())
	}
	if _, err := s.tokens.Revoke(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.openAccess(t.Context()); err != nil || s.network.choice.Open || len(s.warnings) == 0 {
		t.Errorf("H7 a start without a token: %v, %+v, warnings %v", err, s.network.choice, s.warnings)
	}
}

// A token ends what --allow-anonymous and the name tritonserver promise, and the start says so.
func TestAStartWarnsIfATokenEndsAnonymousAccess_B082(t *testing.T) {
	for _, tt := range []struct {
		name        string
		asTriton    bool
		args        []string
		env, stored bool
		warns       string // "": not
	}{
		{name: "NEREID_TOKEN", args: []string{"--allow-anonymous"}, env: true,
			warns: "--allow-anonymous has no effect"},
		{name: "a stored token", args: []string{"--allow-anonymous"}, stored: true,
			warns: "--allow-anonymous has no effect"},
		{name: "tritonserver with a stored token", asTriton: true, stored: true, warns: "nereid token list"},
		{name: "tritonserver with NEREID_TOKEN", asTriton: true, env: true}, // which is meant to be asked for
		{name: "no token", args: []string{"--allow-anonymous"}},
		{name: "no --allow-anonymous", env: true, stored: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := runServer(t, "")
			if tt.stored {
				r.makeToken(t, "a", access.Infer)
			}
			c, err := options.Load(tt.asTriton, append(tt.args, "--model-repository=x", "--data-dir=x"),
				func(k string) (string, bool) { return "secret", tt.env && k == "NEREID_TOKEN" })
			if err != nil {
				t.Fatal(err)
			}
			s := &server{c: c, log: r.log, data: r.data, store: r.store}
			if err := s.openAccess(t.Context()); err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, w := range s.warnings {
				if strings.Contains(w.Text, "token") && !strings.Contains(w.Text, "without a token") {
					texts = append(texts, w.Text)
				}
			}
			if got := strings.Join(texts, "\n"); tt.warns == "" && got != "" || !strings.Contains(got, tt.warns) {
				t.Errorf("warnings %q, want %q", got, tt.warns)
			}
			if required := tt.env || tt.stored; s.tokens.Required() != required {
				t.Errorf("a token is required: %v, want %v", s.tokens.Required(), required)
			}
		})
	}
}

// Peers are told an address that the listener has: 0.0.0.0 does not include those of IPv6.
func TestPeerAddressIsOneOfTheListener(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("2001:db8::7")
	for _, tt := range []struct {
		at   string
		own  []netip.Addr
		want string
	}{
		{"0.0.0.0:8010", []netip.Addr{v4, v6}, "10.0.0.7:8010"},
		{"0.0.0.0:8010", []netip.Addr{v6}, "0.0.0.0:8010"},
		{"[::]:8010", []netip.Addr{v6}, "[2001:db8::7]:8010"},
		{"[::]:8010", []netip.Addr{v4, v6}, "10.0.0.7:8010"},
		{"127.0.0.1:8010", []netip.Addr{v4}, "127.0.0.1:8010"},
	} {
		if got := peerAddress(netip.MustParseAddrPort(tt.at), tt.own); got != tt.want {
			t.Errorf("%s of %v: %s, want %s", tt.at, tt.own, got, tt.want)
		}
	}
}

func TestFixedByOptions_B080(t *testing.T) {
	r := runServer(t, "secret", "--metrics-address=0.0.0.0")
	if s := r.network.State(); !s.Fixed || len(s.Reached) != 1 || s.Reached[0].Service != "metrics" {
		t.Errorf("%+v, want it decided by the options", s)
	}
	if err := r.network.Set(t.Context(), api.SetNetwork{Open: true}); err == nil ||
		!strings.Contains(err.Error(), "options") {
		t.Errorf("Set = %v", err)
	}
	if _, err := dialGRPC(t, r.at("grpc"), nil).ServerLive(t.Context(), &inferencepb.ServerLiveRequest{}); err == nil {
		t.Error("NEREID_TOKEN is not asked for on loopback")
	}
}
