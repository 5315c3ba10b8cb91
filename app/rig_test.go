package app

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"nereid/app/logging"
	"nereid/app/options"
	"nereid/engine/inferencepb"
)

// lockedBuffer is a log that tests read while the server writes it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a whole server in this process, on free ports, with one identity model named good.
type rig struct {
	*server
	out *lockedBuffer
}

// runServer starts a server with token as NEREID_TOKEN. It is shut down when the test ends.
func runServer(t *testing.T, token string, args ...string) *rig {
	t.Helper()
	args = append([]string{"--model-repository=" + modelRepository(t), "--data-dir=" + t.TempDir(),
		"--model-control-mode=explicit",
		"--load-model=good", "--http-port=0", "--grpc-port=0", "--metrics-port=0", "--ui-port=0"}, args...)
	c, err := options.Load(false, args, func(k string) (string, bool) {
		return token, k == "NEREID_TOKEN" &&
			token != ""
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{out: &lockedBuffer{}}
	log, logControl, _, err := logging.Open(c.Log, r.out)
	if err != nil {
		t.Fatal(err)
	}
	r.server = &server{c: c, log: log, logControl: logControl, tasks: tasks{failed: make(chan error, 8)}}
	t.Cleanup(func() {
		r.shutdown()
		select {
		case err := <-r.tasks.failed:
			t.Errorf("a service ended by itself: %v", err)
		default:
		}
	})
	if err := r.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// at is the address of a listener: "http", "grpc", "metrics" or "ui".
func (r *rig) at(name string) string { return r.fronts.listeners[name].Addr().String() }

// get sends a GET request and returns the status and the body. Headers are "Name: value".
func get(t *testing.T, method, url string, headers ...string) (int, string) {
	t.Helper()
	return ask(t, http.DefaultClient, method, url, "", headers...)
}

func ask(t *testing.T, client *http.Client, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// dialGRPC connects; nil credentials: plain text.
func dialGRPC(t *testing.T, address string,
	creds credentials.TransportCredentials) inferencepb.GRPCInferenceServiceClient {
	t.Helper()
	return inferencepb.NewGRPCInferenceServiceClient(dialConn(t, address, creds))
}

func dialConn(t *testing.T, address string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func withToken(ctx context.Context, value string) context.Context {
	if value == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", value)
}

func none(string) (string, bool) { return "", false }

// load reads options. The data folder is a new one unless they name one.
func load(t *testing.T, args ...string) *options.Config {
	t.Helper()
	c, err := options.Load(false, append(args, "--data-dir="+t.TempDir()), none)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return c
}
