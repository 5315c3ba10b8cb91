package cloud_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// storage is a server of one kind with an empty bucket "models".
type storage struct {
	root   string            // its address, without a path in the bucket
	env    map[string]string // what opens it
	wrong  map[string]string // what it refuses; nil: it refuses nobody
	put    func(t *testing.T, key string, data []byte)
	remove func(t *testing.T, key string)

	advice    string // the error of wrong has it; "": the name of the credential file's variable
	folders   bool   // names are paths, so two slashes are one
	noDigests bool   // a listing does not identify contents
}

func (s *storage) lookup(name string) (string, bool) { v, ok := s.env[name]; return v, ok }

const (
	s3Key    = "AKIDEXAMPLE"
	s3Secret = "wJalrXUtnFEMI-EXAMPLE"
)

// startS3 serves S3 in this process, and refuses every key but s3Key.
func startS3(t *testing.T) *storage {
	backend := s3mem.New()
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	fake := gofakes3.New(backend, gofakes3.WithoutVersioning()).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential="+s3Key+"/") {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<?xml version="1.0"?>`+
				`<Error><Code>InvalidAccessKeyId</Code><Message>The key is not known.</Message></Error>`)
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	signed := http.Header{"Authorization": {"AWS4-HMAC-SHA256 Credential=" + s3Key + "/x"}}
	return &storage{
		root:  "s3://" + strings.TrimPrefix(srv.URL, "http://") + "/models",
		env:   map[string]string{"AWS_ACCESS_KEY_ID": s3Key, "AWS_SECRET_ACCESS_KEY": s3Secret},
		wrong: map[string]string{"AWS_ACCESS_KEY_ID": "AKIDWRONG", "AWS_SECRET_ACCESS_KEY": s3Secret},
		put: func(t *testing.T, key string, data []byte) {
			send(t, http.MethodPut, srv.URL+"/models/"+(&url.URL{Path: key}).EscapedPath(), signed, data)
		},
		remove: func(t *testing.T, key string) { send(t, http.MethodDelete, srv.URL+"/models/"+key, signed, nil) },
	}
}

// startGCS runs fake-gcs-server, which needs no credentials.
func startGCS(t *testing.T) *storage {
	port := start(t, tool(t, "bin/fake-gcs-server"), "server started at", func(port string) []string {
		return []string{"-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", port, "-public-host",
			"127.0.0.1:" + port}
	})
	base := "http://127.0.0.1:" + port
	asJSON := http.Header{"Content-Type": {"application/json"}}
	send(t, http.MethodPost, base+"/storage/v1/b?project=p", asJSON, []byte(`{"name":"models"}`))
	return &storage{
		root: "gs://models", env: map[string]string{"STORAGE_EMULATOR_HOST": base},
		put: func(t *testing.T, key string, data []byte) {
			send(t, http.MethodPost, base+"/upload/storage/v1/b/models/o?uploadType=media&name="+url.QueryEscape(key),
				nil, data)
		},
		remove: func(t *testing.T, key string) {
			send(t, http.MethodDelete, base+"/storage/v1/b/models/o/"+url.PathEscape(key), nil, nil)
		},
	}
}

// The account of Azurite's documentation.
const (
	azuriteAccount = "devstoreaccount1"
	azuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// startAzure runs Azurite.
func startAzure(t *testing.T) *storage {
	azurite := tool(t, "azurite/node_modules/.bin/azurite-blob")
	port := start(t, azurite, "successfully listens on", func(port string) []string {
		return []string{"--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", port, "--skipApiVersionCheck",
			"--disableTelemetry"}
	})
	at := "http://127.0.0.1:" + port + "/" + azuriteAccount
	key, err := container.NewSharedKeyCredential(azuriteAccount, azuriteKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(at+"/models", key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return &storage{
		root:  "as://" + at + "/models",
		env:   map[string]string{"AZURE_STORAGE_ACCOUNT": azuriteAccount, "AZURE_STORAGE_KEY": azuriteKey},
		wrong: map[string]string{"AZURE_STORAGE_KEY": "d3Jvbmc="},
		put: func(t *testing.T, key string, data []byte) {
			body := streaming.NopCloser(bytes.NewReader(data))
			if _, err := c.NewBlockBlobClient(key).Upload(context.Background(), body, nil); err != nil {
				t.Fatal(err)
			}
		},
		remove: func(t *testing.T, key string) {
			if _, err := c.NewBlobClient(key).Delete(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// tool is a server that "make setup-storage" installs.
func tool(t *testing.T, name string) string {
	path, err := filepath.Abs(filepath.Join("../../../.cache", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("run make setup-storage first: %v", err)
	}
	return path
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// start runs a server until the test ends, and returns its port when it is ready. These servers do not report a port
// that the system chose, so start chooses one, and another one if that is in use.
func start(t *testing.T, program, ready string, args func(port string) []string) string {
	t.Helper()
	for try := 1; ; try++ {
		port := freePort(t)
		said := launch(t, program, ready, args(port))
		if said == "" {
			return port
		}
		if try == 5 || !strings.Contains(said, "address already in use") && !strings.Contains(said, "EADDRINUSE") {
			t.Fatalf("%s ended: %s", program, said)
		}
	}
}

// launch runs a server until the test ends. It returns "" when the server is ready, and its output if it exited before.
func launch(t *testing.T, program, ready string, args []string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	})
	said := make(chan string, 1)
	go func() {
		sc := bufio.NewScanner(out)
		var all strings.Builder
		told := false
		for sc.Scan() {
			fmt.Fprintln(&all, sc.Text())
			if !told && strings.Contains(sc.Text(), ready) {
				told = true
				said <- ""
			}
		}
		if !told {
			said <- all.String()
		}
	}()
	select {
	case text := <-said:
		return text
	case <-time.After(time.Minute):
		t.Fatalf("%s does not say %q", program, ready)
		return ""
	}
}

func send(t *testing.T, method, to string, h http.Header, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, to, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if h != nil {
		req.Header = h.Clone()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s: %s, %v", method, to, resp.Status, text, err)
	}
}

// wire counts downloaded bytes, and ends bodies after cut bytes while cuts is above 0.
type wire struct {
	cut         int64
	cuts        atomic.Int64
	bytes, gets atomic.Int64 // of objects
	ranges      atomic.Int64 // of objects, not from the beginning
}

var errCut = errors.New("connection reset by peer")

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	q := r.URL.Query()
	if err != nil || q.Has("list-type") || q.Get("comp") == "list" || q.Has("op") && q.Get("op") != "OPEN" ||
		strings.HasSuffix(r.URL.Path, "/o") || resp.StatusCode >= 300 {
		return resp, err
	}
	w.gets.Add(1)
	if resp.StatusCode == http.StatusPartialContent &&
		!strings.HasPrefix(resp.Header.Get("Content-Range"), "bytes 0-") || q.Has("offset") && q.Get("offset") != "0" {
		w.ranges.Add(1)
	}
	limit := int64(1 << 62)
	if w.cuts.Add(-1) >= 0 {
		limit = w.cut
	}
	resp.Body = &cutBody{ReadCloser: resp.Body, w: w, left: limit}
	return resp, nil
}

type cutBody struct {
	io.ReadCloser
	w    *wire
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errCut
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.w.bytes.Add(int64(n))
	return n, err
}
