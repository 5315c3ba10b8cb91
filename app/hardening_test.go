package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/app/access"
	"nereid/app/options"
	"nereid/engine/inferencepb"
	"nereid/store"
)

// Every listener refuses the requests that a page on another site can make a browser send.
func TestRequestsFromOtherSitesAreRefused(t *testing.T) {
	r := runServer(t, "")
	paths := map[string]string{"http": "/v2", "metrics": "/metrics", "ui": "/api/server"}
	for endpoint, path := range paths {
		url := "http://" + r.at(endpoint) + path
		t.Run("H1 foreign Host on "+endpoint, func(t *testing.T) {
			for host, want := range map[string]int{"evil.example": 421, "127.0.0.1.evil.example:8000": 421,
				"localhost.evil.example": 421, "localhost": 200, "127.0.0.1": 200, "localhost:80": 200} {
				if got, text := get(t, "GET", url, "Host: "+host); got != want {
					t.Errorf("Host %s is answered %d %s, want %d", host, got, text, want)
				}
			}
			for _, host := range []string{"localhost:80@evil.example", "127.0.0.1:x"} { // Go's client does not
				if got := rawStatus(t, r.at(endpoint), "GET", path, "Host: "+host); got != "421" && got != "400" {
					t.Errorf("Host %s is answered %s, want 421", host, got)
				}
			}
		})
		t.Run("H3 no wildcard on "+endpoint, func(t *testing.T) {
			for _, method := range []string{"GET", "OPTIONS"} {
				req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Origin", "https://evil.example")
				req.Header.Set("Access-Control-Request-Method", "POST")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				for name := range resp.Header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s has %s: %s", method, name, resp.Header.Get(name))
					}
				}
			}
		})
	}
	for _, url := range []string{"http://" + r.at("http") + "/v2/repository/models/good/unload", "http://" +
		r.at("http") + "/v2/repository/models/good/load",
		"http://" + r.at("http") + "/v2/logging", "http://" + r.at("http") + "/v2/trace/setting",
		"http://" + r.at("http") + "/v2/systemsharedmemory/unregister",
		"http://" + r.at("http") + "/v2/models/good/generate_stream",
		"http://" + r.at("ui") + "/api/models/good/unload", "http://" + r.at("ui") + "/api/access/tokens"} {
		t.Run("H2 a form of another site to "+strings.SplitN(url, "/", 4)[3], func(t *testing.T) {
			for _, headers := range [][]string{{"Origin: https://evil.example"}, {"Origin: null"},
				{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}} {
				got, text := ask(t, http.DefaultClient, "POST", url, `{"name":"x","scopes":["admin"]}`,
					append(headers, "Content-Type: text/plain")...)
				if got != 403 {
					t.Errorf("%s is answered %d %s, want 403", headers, got, text)
				}
			}
		})
	}
	if got, _ := get(t, "GET", "http://"+r.at("http")+"/v2/models/good/ready"); got != 200 || r.tokens.Exist() {
		t.Errorf("H2 a refused request took effect: good is %d, tokens %v", got, r.tokens.List())
	}
	t.Run("H4 streams", func(t *testing.T) {
		for _, headers := range [][]string{{"Origin: https://evil.example"}, {"Origin: null"},
			{"Sec-Fetch-Site: cross-site"}} {
			url := "http://" + r.at("ui") + "/api/events?topics=models"
			if got, text := get(t, "GET", url, append(headers, "Accept: text/event-stream")...); got != 403 {
				t.Errorf("%s is answered %d %s, want 403", headers, got, text)
			}
		}
	})
	t.Run("H6 headers of the page", func(t *testing.T) {
		resp, err := http.Get("http://" + r.at("ui") + "/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy":         "no-referrer",
			"Content-Security-Policy": "default-src 'none'; script-src 'self';"} {
			if got := resp.Header.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// H7: a real start on an address that others can reach, without a token, is refused before anything listens.
func TestH7_AStartOpenToTheNetworkNeedsAToken(t *testing.T) {
	for _, option := range []string{"--http-address=0.0.0.0", "--grpc-address=0.0.0.0", "--metrics-address=0.0.0.0",
		"--ui-address=0.0.0.0",
		"--http-address=::", "--grpc-address=[::]", "--metrics-address=::", "--ui-address=::"} {
		t.Run("H7 "+option, func(t *testing.T) {
			c, err := options.Load(false, []string{"--model-repository=" + modelRepository(t), "--data-dir=" +
				t.TempDir(),
				"--http-port=0", "--grpc-port=0", "--metrics-port=0", "--ui-port=0", option}, none)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			err = Serve(t.Context(), c, &log)
			if err == nil || !strings.Contains(err.Error(), "can be reached from other machines") ||
				strings.Contains(log.String(), "Started") {
				t.Errorf("Serve = %v\n%s", err, log.String())
			}
		})
	}
}

// H8: no spelling of a path, a header or a method bypasses the token.
func TestH8_NothingBypassesTheToken(t *testing.T) {
	r := runServer(t, "secret")
	base := "http://" + r.at("http")
	paths := []string{"/v2", "/v2/", "//v2", "/v2/./", "/v2/../v2", "/%762", "/V2", "/v2%2f", "/v2;x", "/", "/metrics",
		"/v2/health/live", "/v2/health/live/",
		"/v2/models/good", "/v2/models/good/infer", "/v2/models/stats", "/v2/repository/index",
		"/v2/repository/models/good/unload", "/v2/trace/setting",
		"/v2/logging", "/v2/systemsharedmemory/status", "/v2/cudasharedmemory/status", "/v2?token=secret",
		"/v2?authorization=secret", "/v1/models", "/ping"}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "DELETE"} {
			for _, header := range []string{"X-None: 1", "Authorization: ", "Authorization: wrong",
				"Authorization: Secret", "Authorization: Bearer wrong",
				"Authorization: Basic secret", "Authorization: secretx", "Proxy-Authorization: secret",
				"Cookie: token=secret"} {
				if got := rawStatus(t, r.at("http"), method, path, header); got != "401" {
					t.Errorf("H8 %s %s with %q is answered %s, want 401", method, path, header, got)
				}
			}
		}
	}
	if got, _ := get(t, "GET", base+"/v2", "Authorization: secret"); got != 200 {
		t.Errorf("the right token is answered %d", got)
	}
	client := dialGRPC(t, r.at("grpc"), nil)
	for _, value := range []string{"", "wrong", "Secret", "Bearer wrong"} {
		ctx := withToken(t.Context(), value)
		calls := map[string]func() error{
			"ServerLive": func() error {
				_, err := client.ServerLive(ctx,
					&inferencepb.ServerLiveRequest{})
				return err
			},
			"ModelInfer": func() error { _, err := client.ModelInfer(ctx, inferRequest()); return err },
			"RepositoryModelUnload": func() error {
				_, err := client.RepositoryModelUnload(ctx,
					&inferencepb.RepositoryModelUnloadRequest{ModelName: "good"})
				return err
			},
			"ModelStreamInfer": func() error {
				s, err := client.ModelStreamInfer(ctx)
				if err != nil {
					return err
				}
				_, err = s.Recv()
				return err
			},
		}
		for name, call := range calls {
			if err := call(); grpcstatus.Code(err) != codes.Unauthenticated {
				t.Errorf("H8 %s with %q = %v, want Unauthenticated", name, value, err)
			}
		}
	}
}

// H8: each method of each gRPC service needs the token, also by another spelling of its path.
func TestH8_NothingBypassesTheTokenOverGRPC(t *testing.T) {
	r := runServer(t, "secret")
	conn := dialConn(t, r.at("grpc"), nil)
	var paths []string
	for _, m := range inferencepb.GRPCInferenceService_ServiceDesc.Methods {
		paths = append(paths, "/inference.GRPCInferenceService/"+m.MethodName)
	}
	for _, m := range inferencepb.GRPCInferenceService_ServiceDesc.Streams {
		paths = append(paths, "/inference.GRPCInferenceService/"+m.StreamName)
	}
	if len(paths) < 20 {
		t.Fatalf("the service has %d methods: nothing was looked at", len(paths))
	}
	paths = append(paths, "/grpc.health.v1.Health/Check")
	for _, path := range paths {
		for _, value := range []string{"", "wrong", "Secret", "Bearer wrong"} {
			err := conn.Invoke(withToken(t.Context(), value), path, &inferencepb.ServerLiveRequest{},
				&inferencepb.ServerLiveResponse{})
			if grpcstatus.Code(err) != codes.Unauthenticated {
				t.Errorf("H8 %s with %q = %v, want Unauthenticated", path, value, err)
			}
		}
	}
	for _, path := range []string{"//inference.GRPCInferenceService/RepositoryIndex",
		"/inference.GRPCInferenceService//RepositoryIndex", "/inference.GRPCInferenceService/RepositoryIndex/",
		"/inference.GRPCInferenceService/repositoryIndex", "/x/../inference.GRPCInferenceService/RepositoryIndex",
		"/inference.GRPCInferenceService/RepositoryInde%78"} {
		err := conn.Invoke(t.Context(), path, &inferencepb.ServerLiveRequest{}, &inferencepb.ServerLiveResponse{})
		if err == nil {
			t.Errorf("H8 %s is answered without a token", path)
		}
	}
	if err := conn.Invoke(withToken(t.Context(), "Bearer secret"), paths[0], &inferencepb.ServerLiveRequest{},
		&inferencepb.ServerLiveResponse{}); err != nil {
		t.Errorf("with the token: %v", err)
	}
}

// rawStatus sends a path as it is, which no client library would.
func rawStatus(t *testing.T, address, method, path, header string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !strings.HasPrefix(header, "Host: ") {
		header = "Host: localhost\r\n" + header
	}
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\n%s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method,
		path, header); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || len(answer) < 12 {
		t.Fatalf("%s %s: %q, %v", method, path, answer, err)
	}
	return string(answer[9:12])
}

// H9: a restricted group of endpoints needs its header on both protocols.
func TestH9_RestrictedGroupsCountOnBothProtocols(t *testing.T) {
	const groups = "model-repository,shared-memory,logging,trace"
	r := runServer(t, "", "--http-restricted-api="+groups+":x-key=value",
		"--grpc-restricted-protocol="+groups+":key=value")
	client := dialGRPC(t, r.at("grpc"), nil)
	for _, tt := range []struct {
		group, method, path string
		call                func(ctx context.Context) error
	}{
		{"model-repository", "POST", "/v2/repository/index", func(ctx context.Context) error {
			_, err := client.RepositoryIndex(ctx, &inferencepb.RepositoryIndexRequest{})
			return err
		}},
		{"model-repository", "POST", "/v2/repository/models/good/load", func(ctx context.Context) error {
			_, err := client.RepositoryModelLoad(ctx, &inferencepb.RepositoryModelLoadRequest{ModelName: "good"})
			return err
		}},
		{"model-repository", "POST", "/v2/repository/models/none/unload", func(ctx context.Context) error {
			_, err := client.RepositoryModelUnload(ctx, &inferencepb.RepositoryModelUnloadRequest{ModelName: "none"})
			return err
		}},
		{"shared-memory", "GET", "/v2/systemsharedmemory/status", func(ctx context.Context) error {
			_, err := client.SystemSharedMemoryStatus(ctx, &inferencepb.SystemSharedMemoryStatusRequest{})
			return err
		}},
		{"shared-memory", "POST", "/v2/systemsharedmemory/region/r/register", func(ctx context.Context) error {
			_, err := client.SystemSharedMemoryRegister(ctx, &inferencepb.SystemSharedMemoryRegisterRequest{Name: "r"})
			return err
		}},
		{"shared-memory", "POST", "/v2/cudasharedmemory/unregister", func(ctx context.Context) error {
			_, err := client.CudaSharedMemoryUnregister(ctx, &inferencepb.CudaSharedMemoryUnregisterRequest{})
			return err
		}},
		{"logging", "GET", "/v2/logging", func(ctx context.Context) error {
			_, err := client.LogSettings(ctx, &inferencepb.LogSettingsRequest{})
			return err
		}},
		{"logging", "POST", "/v2/logging", func(ctx context.Context) error {
			_, err := client.LogSettings(ctx, &inferencepb.LogSettingsRequest{})
			return err
		}},
		{"trace", "GET", "/v2/trace/setting", func(ctx context.Context) error {
			_, err := client.TraceSetting(ctx, &inferencepb.TraceSettingRequest{})
			return err
		}},
		{"trace", "POST", "/v2/models/good/trace/setting", func(ctx context.Context) error {
			_, err := client.TraceSetting(ctx, &inferencepb.TraceSettingRequest{ModelName: "good"})
			return err
		}},
	} {
		t.Run("H9 "+tt.group+" "+tt.path, func(t *testing.T) {
			url := "http://" + r.at("http") + tt.path
			for _, header := range []string{"x-other: value", "x-key: wrong", "x-key: "} {
				if got, text := get(t, tt.method, url, header); got != 403 {
					t.Errorf("with %q: %d %s, want 403", header, got, text)
				}
			}
			if got, text := get(t, tt.method, url, "x-key: value"); got == 403 {
				t.Errorf("with the key: %d %s", got, text)
			}
			if err := tt.call(t.Context()); grpcstatus.Code(err) != codes.Unavailable {
				t.Errorf("gRPC without the key: %v, want Unavailable", err)
			}
			keyed := metadata.AppendToOutgoingContext(t.Context(), "triton-grpc-protocol-key", "value")
			if err := tt.call(keyed); grpcstatus.Code(err) == codes.Unavailable {
				t.Errorf("gRPC with the key: %v", err)
			}
		})
	}
	if got, _ := get(t, "GET", "http://"+r.at("http")+"/v2/models/good"); got != 200 {
		t.Errorf("an open group is answered %d", got)
	}
}

// H11: neither a token nor the data sent to a model appears in the log, in a file of the data folder, in a response of
// the history or in the process list.
func TestH11_SecretsAreNotKept(t *testing.T) {
	const env, prompt = "token-from-the-environment", "prompt-that-nobody-else-may-read"
	dir := t.TempDir()
	r := runServer(t, env, "--data-dir="+dir, "--log-verbose=4")
	made := r.makeToken(t, "a", access.Infer)
	secrets := map[string]string{"the environment's token": env, "a stored token": made,
		"the page's own token": r.tokens.Internal(), "a prompt": prompt,
		"a wrong token": "wrong-token-1234567"}
	for _, value := range []string{env, "Bearer " + made, secrets["a wrong token"]} {
		_, _ = ask(t, http.DefaultClient, "POST", "http://"+r.at("http")+"/v2/models/good/infer", inferGood,
			"Authorization: "+value)
		_, _ = ask(t, http.DefaultClient, "POST", "http://"+r.at("http")+"/v2/models/good/infer",
			`{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":["`+prompt+`"]}]}`,
			"Authorization: "+value)
		_, _ = dialGRPC(t, r.at("grpc"), nil).ModelInfer(withToken(t.Context(), value), inferRequest())
		_, _ = get(t, "GET", "http://"+r.at("metrics")+"/metrics", "Authorization: "+value)
	}
	_, _ = ask(t, http.DefaultClient, "POST", "http://"+r.at("ui")+"/api/infer/good", inferGood, "X-Nereid: 1")
	_, events := get(t, "GET", "http://"+r.at("ui")+"/api/history/events")
	_, state := get(t, "GET", "http://"+r.at("ui")+"/api/access")
	_, srv := get(t, "GET", "http://"+r.at("ui")+"/api/server")
	if err := r.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{"the log": r.out.String(), "the history": events, "the access settings": state,
		"the server's state": srv}
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if len(b) > 0 {
			seen[path] = string(b)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if seen[filepath.Join(dir, store.FileName)] == "" || seen[filepath.Join(dir, access.FileName)] == "" {
		t.Errorf("the data folder has no database or no tokens: %d files were read", len(seen))
	}
	cmdline, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	seen["the process list"] = string(cmdline)
	for place, text := range seen {
		if text == "" {
			t.Errorf("%s is empty: nothing was looked at", place)
		}
		for what, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("H11 %s is in %s", what, place)
			}
		}
	}
	// Every user of the machine can read an argument.
	for _, name := range regexp.MustCompile(`(?m)^  --([\w-]+)`).FindAllStringSubmatch(options.Usage("nereid"), -1) {
		if n := name[1]; strings.Contains(n, "token") && !strings.HasSuffix(n, "-file") ||
			strings.Contains(n, "password") || strings.Contains(n, "secret") {
			t.Errorf("H11 --%s takes a secret on the command line", n)
		}
	}
}

// H12: if a tab is closed during an upload, no part of the file stays, and the import can be removed.
func TestH12_AnInterruptedUploadLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	r := runServer(t, "", "--data-dir="+dir)
	code, text := ask(t, http.DefaultClient, "POST", "http://"+r.at("ui")+"/api/imports", `{}`, "X-Nereid: 1")
	id := field(text, "id")
	if code != 201 || id == "" {
		t.Fatalf("import = %d %s", code, text)
	}
	c, err := net.Dial("tcp", r.at("ui"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "PUT /api/imports/%s/files/model.onnx HTTP/1.1\r\nHost: localhost\r\nX-Nereid: "+
		"1\r\nContent-Length: 10000000\r\n\r\n%s", id, strings.Repeat("x", 1<<20))
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, c) // until the server has closed it
	c.Close()
	var files []string
	if err := filepath.WalkDir(filepath.Join(dir, "imports"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(files) > 0 {
		t.Errorf("H12 a broken upload leaves %q", files)
	}
	if code, text := ask(t, http.DefaultClient, "DELETE", "http://"+r.at("ui")+"/api/imports/"+id, "",
		"X-Nereid: 1"); code != 204 {
		t.Errorf("the import cannot be removed: %d %s", code, text)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "imports")); err != nil || len(left) > 0 {
		t.Errorf("H12 staging keeps %v, %v", left, err)
	}
}

// field returns a text field of a flat JSON object.
func field(text, name string) string {
	_, rest, _ := strings.Cut(text, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
