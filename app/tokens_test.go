package app

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/app/access"
	"nereid/app/command"
	"nereid/app/command/admin"
	"nereid/engine/inferencepb"
)

const inferGood = `{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1.5]}]}`

func inferRequest() *inferencepb.ModelInferRequest {
	return &inferencepb.ModelInferRequest{ModelName: "good", Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{
		Name: "INPUT0", Datatype: "FP32", Shape: []int64{1},
		Contents: &inferencepb.InferTensorContents{Fp32Contents: []float32{1.5}}}}}
}

// makeToken makes a token as the page does.
func (r *rig) makeToken(t *testing.T, name string, scope access.Scope) string {
	t.Helper()
	_, text, err := r.tokens.Create(t.Context(), name, scope)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A token, raw or as Bearer, opens on every protocol what its scopes say. Without a token nothing is served.
func TestTokensOnEveryProtocol(t *testing.T) {
	r := runServer(t, "from-the-environment")
	infer, control := r.makeToken(t, "i", access.Infer), r.makeToken(t, "c", access.Control)
	base := "http://" + r.at("http")
	client := dialGRPC(t, r.at("grpc"), nil)
	for _, tt := range []struct {
		name, value                    string
		health, infer, index, scraping int
	}{
		{"missing", "", 401, 401, 401, 401},
		{"wrong", "nrd_WRONG", 401, 401, 401, 401},
		{"other case", strings.ToLower(infer), 401, 401, 401, 401},
		{"environment", "from-the-environment", 200, 200, 200, 200},
		{"environment as Bearer", "Bearer from-the-environment", 200, 200, 200, 200},
		{"infer", infer, 200, 200, 403, 200},
		{"infer as Bearer", "Bearer " + infer, 200, 200, 403, 200},
		{"control", "bearer " + control, 200, 403, 200, 200},
	} {
		t.Run("B082 token "+tt.name, func(t *testing.T) {
			var headers []string
			if tt.value != "" {
				headers = []string{"Authorization: " + tt.value}
			}
			for _, q := range []struct {
				method, url, body string
				want              int
			}{
				{"GET", base + "/v2/health/ready", "", tt.health},
				{"GET", base + "/v2/models/good/config", "", tt.health},
				{"POST", base + "/v2/models/good/infer", inferGood, tt.infer},
				{"POST", base + "/v2/repository/index", "", tt.index},
				{"GET", "http://" + r.at("metrics") + "/metrics", "", tt.scraping},
			} {
				got, text := ask(t, http.DefaultClient, q.method, q.url, q.body, headers...)
				var fault struct{ Error string }
				if got != q.want || got >= 400 && (json.Unmarshal([]byte(text), &fault) != nil || fault.Error == "") {
					t.Errorf("%s %s = %d %s, want %d", q.method, q.url, got, text, q.want)
				}
			}
			ctx := withToken(t.Context(), tt.value)
			_, err := client.ServerReady(ctx, &inferencepb.ServerReadyRequest{})
			wantCode(t, "ServerReady", err, tt.health)
			_, err = client.ModelInfer(ctx, inferRequest())
			wantCode(t, "ModelInfer", err, tt.infer)
			_, err = client.RepositoryIndex(ctx, &inferencepb.RepositoryIndexRequest{})
			wantCode(t, "RepositoryIndex", err, tt.index)
		})
	}
	t.Run("B078 authorization metadata of one call", func(t *testing.T) {
		if _, err := client.ModelInfer(withToken(t.Context(), infer), inferRequest()); err != nil {
			t.Error(err)
		}
		if _, err := r.tokens.Revoke(t.Context(), "i"); err != nil {
			t.Fatal(err)
		}
		_, err := client.ModelInfer(withToken(t.Context(), infer), inferRequest())
		wantCode(t, "ModelInfer over the same connection after revocation", err, 401)
		if got, _ := get(t, "GET", base+"/v2", "Authorization: "+infer); got != 401 {
			t.Errorf("a revoked token is answered %d", got)
		}
	})
}

// wantCode checks that a gRPC error matches the HTTP status of the same refusal.
func wantCode(t *testing.T, call string, err error, status int) {
	t.Helper()
	want := map[int]codes.Code{200: codes.OK, 401: codes.Unauthenticated, 403: codes.PermissionDenied}[status]
	if grpcstatus.Code(err) != want {
		t.Errorf("%s = %v, want %v", call, err, want)
	}
}

// The command changes the data folder, and a running server at once. Only the token goes to standard output.
func TestTokenCommand_B082(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("a-long-folder-name/", 8))
	for name, dir := range map[string]string{"a data folder": t.TempDir(), "a data folder with a long path": long} {
		t.Run(name, func(t *testing.T) {
			token := func(args ...string) (string, string, int) {
				var out, errs bytes.Buffer
				env := &command.Env{Lookup: none, Stdout: &out, Stderr: &errs}
				code := admin.Token(t.Context(), env, slices.Insert(args, 1, "--data-dir="+dir))
				return out.String(), errs.String(), code
			}
			first, said, code := token("create", "--name=before")
			if first = strings.TrimSpace(first); code != 0 || !strings.HasPrefix(first, "nrd_") ||
				strings.Contains(said, first) || !strings.Contains(said, "infer") {
				t.Fatalf("create = %d %q %q", code, first, said)
			}
			r := runServer(t, "", "--data-dir="+dir)
			url := "http://" + r.at("http") + "/v2"
			if got, _ := get(t, "GET", url, "Authorization: "+first); got != 200 {
				t.Errorf("a token made before the start is answered %d", got)
			}
			second, _, code := token("create", "--name=while it runs", "--scope=control,admin")
			second = strings.TrimSpace(second)
			if got, _ := get(t, "GET", url, "Authorization: "+second); code != 0 || got != 200 {
				t.Errorf("a token made while the server runs: %d, answered %d", code, got)
			}
			if list, _, code := token("list"); code != 0 || !strings.Contains(list, "before") ||
				!strings.Contains(list, "control,admin") || strings.Contains(list, first) {
				t.Errorf("list = %d\n%s", code, list)
			}
			if out, said, code := token("revoke", "before"); code != 0 || !strings.Contains(out, "before") {
				t.Errorf("revoke = %d %q %q", code, out, said)
			}
			if got, _ := get(t, "GET", url, "Authorization: "+first); got != 401 {
				t.Errorf("a token revoked while the server runs is answered %d", got)
			}
			for _, bad := range [][]string{{"revoke", "before"}, {"create", "--name="},
				{"create", "--name=x", "--scope=root"}, {"create", "x"}, {"revoke"}, {"frob"}, {"list", "--frob"}} {
				if out, said, code := token(bad...); code != 1 || !strings.HasPrefix(said, "error: ") || out != "" {
					t.Errorf("%q = %d %q %q, want an error", bad, code, out, said)
				}
			}
		})
	}
}

// H13: only the owner can read the data folder and open the control socket.
func TestH13_DataFolderIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	r := runServer(t, "", "--data-dir="+dir)
	r.makeToken(t, "a", access.Admin)
	want := map[string]os.FileMode{".": 0o700, "nereid.db": 0o600, "nereid.db-wal": 0o600, "nereid.db-shm": 0o600,
		"lock": 0o600, access.FileName: 0o600,
		"control": 0o700, "control/socket": 0o600, "overrides": 0o700, "imports": 0o700}
	for name, mode := range want {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want mode %o", name, info, err, mode)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 && !e.IsDir() {
			t.Errorf("%s: %v %v can be read by others", e.Name(), info.Mode(), err)
		}
	}
	if err := listenerIs(r.fronts.listeners["http"], "127.0.0.1"); err != "" {
		t.Error(err)
	}
}

func listenerIs(l net.Listener, host string) string {
	if got := l.Addr().(*net.TCPAddr).IP.String(); got != host {
		return "listens on " + got + ", want " + host
	}
	return ""
}
