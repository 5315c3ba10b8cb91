package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/lifecycle"
	"nereid/engine/repo"
	"nereid/engine/repo/cloud"
)

// bucket is a bucket of a real S3 server, which can be made to fail.
type bucket struct {
	backend *s3mem.Backend
	address string
	down    atomic.Bool  // it answers nothing but errors
	deny    atomic.Bool  // it sends no objects
	sent    atomic.Int64 // bytes of objects below a version
	hold    chan struct{}
}

func startBucket(t *testing.T) *bucket {
	b := &bucket{backend: s3mem.New()}
	if err := b.backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	fake := gofakes3.New(b.backend, gofakes3.WithoutVersioning()).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object := strings.HasSuffix(r.URL.Path, ".bin")
		if b.down.Load() || object && b.deny.Load() {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<Error><Code>AccessDenied</Code><Message>Not now.</Message></Error>`)
			return
		}
		if object {
			w = &counted{w, b}
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	b.address = "s3://" + strings.TrimPrefix(srv.URL, "http://") + "/models/repo"
	return b
}

// counted counts what is sent, and, where there is a channel to wait for, sends the second half of it after that.
type counted struct {
	http.ResponseWriter
	b *bucket
}

func (c *counted) Write(p []byte) (int, error) {
	if h := c.b.hold; h != nil {
		half := len(p) / 2
		if _, err := c.ResponseWriter.Write(p[:half]); err != nil {
			return 0, err
		}
		c.ResponseWriter.(http.Flusher).Flush()
		<-h
		n, err := c.ResponseWriter.Write(p[half:])
		c.b.sent.Add(int64(len(p)))
		return half + n, err
	}
	n, err := c.ResponseWriter.Write(p)
	c.b.sent.Add(int64(n))
	return n, err
}

func (b *bucket) put(t *testing.T, key, text string) {
	t.Helper()
	_, err := b.backend.PutObject("models", "repo/"+key, nil, strings.NewReader(text), int64(len(text)), nil)
	if err != nil {
		t.Fatal(err)
	}
}

// open starts an engine on the bucket.
func (b *bucket) open(t *testing.T, cache string, o engine.Options) *engine.Engine {
	t.Helper()
	env := map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
	r, err := cloud.Open(t.Context(), b.address,
		cloud.Options{Cache: cache, Log: slog.New(slog.DiscardHandler), Pause: time.Millisecond,
			Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	o.Repositories, o.Remotes = []string{b.address}, map[string]repo.Remote{b.address: r}
	o.Backends = builtin.All()
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); e.Close(context.Background()) })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// ready are the versions in service, as model:version.
func ready(e *engine.Engine) (all []string) {
	for _, m := range e.RepositoryIndex(true) {
		all = append(all, m.Name+":"+m.Version)
	}
	return all
}

func serves(e *engine.Engine, want ...string) func() bool {
	return func() bool { return slices.Equal(ready(e), want) }
}

const oneVersion = `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
`

func TestModelsFromS3(t *testing.T) {
	t.Run("A016 only what is served is downloaded, and a restart downloads nothing", func(t *testing.T) {
		b, cache := startBucket(t), t.TempDir()
		b.put(t, "id/config.pbtxt", oneVersion)
		b.put(t, "id/1/weights.bin", strings.Repeat("1", 1000))
		b.put(t, "id/2/weights.bin", strings.Repeat("2", 2000))
		b.put(t, "other/config.pbtxt", oneVersion)
		b.put(t, "other/1/weights.bin", strings.Repeat("3", 4000))
		e := b.open(t, cache, engine.Options{Mode: engine.ModeExplicit, StartupModels: []string{"id"}})
		if !serves(e, "id:2")() || b.sent.Load() != 2000 {
			t.Errorf("in service %v, %d bytes were downloaded; want version 2 and its 2000 bytes", ready(e),
				b.sent.Load())
		}
		if out, err := ask(e, request(1, 7)); err != nil || len(out) != 16 {
			t.Errorf("infer: %v, %v", out, err)
		}
		if err := e.LoadModel(t.Context(), "other", engine.LoadParameters{}); err != nil ||
			!serves(e, "id:2", "other:1")() {
			t.Errorf("load: %v, in service %v", err, ready(e))
		}
		e.Close(t.Context())
		b.sent.Store(0)
		e = b.open(t, cache, engine.Options{})
		if !serves(e, "id:2", "other:1")() || b.sent.Load() != 0 {
			t.Errorf("after the restart: in service %v, %d bytes were downloaded", ready(e), b.sent.Load())
		}
	})
	t.Run("A016 polling follows the bucket by etags; models stay in service while it cannot be read",
		func(t *testing.T) {
			b, ch := startBucket(t), newChanges()
			b.put(t, "id/config.pbtxt", oneVersion)
			b.put(t, "id/1/weights.bin", "1")
			var failed atomic.Int64
			e := b.open(t, t.TempDir(), engine.Options{
				ModelOptions: engine.ModelOptions{
					Settle: 20 * time.Millisecond,
					Events: engine.EventListener{Changed: ch.note,
						ScanFailed: func(error) { failed.Add(1); ch.note() }},
				},
				Mode: engine.ModePoll, PollInterval: 5 * time.Millisecond,
			})
			ch.until(t, "version 1", serves(e, "id:1"))
			b.put(t, "id/2/weights.bin", "2")
			ch.until(t, "version 2 alone", serves(e, "id:2"))
			b.down.Store(true)
			ch.until(t, "the scan to fail", func() bool { return failed.Load() > 0 })
			if !serves(e, "id:2")() {
				t.Errorf("in service %v while the bucket cannot be read", ready(e))
			}
			b.down.Store(false)
			b.put(t, "new/config.pbtxt", oneVersion)
			b.put(t, "new/1/weights.bin", "n")
			ch.until(t, "the new model", serves(e, "id:2", "new:1"))
			for _, key := range []string{"id/config.pbtxt", "id/1/weights.bin", "id/2/weights.bin"} {
				if _, err := b.backend.DeleteObject("models", "repo/"+key); err != nil {
					t.Fatal(err)
				}
			}
			ch.until(t, "the removed model to go", serves(e, "new:1"))
		})
	t.Run("A021 a download that fails is in the index, leaves the old version in service and is tried again",
		func(t *testing.T) {
			b, ch := startBucket(t), newChanges()
			b.put(t, "id/config.pbtxt", oneVersion)
			b.put(t, "id/1/weights.bin", "1")
			e := b.open(t, t.TempDir(), engine.Options{
				ModelOptions: engine.ModelOptions{Settle: 10 * time.Millisecond,
					Events: engine.EventListener{Changed: ch.note}},
				Mode: engine.ModePoll, PollInterval: 5 * time.Millisecond,
			})
			b.deny.Store(true)
			b.put(t, "id/2/weights.bin", "2")
			ch.until(t, "the reason in the index", func() bool {
				for _, m := range e.RepositoryIndex(false) {
					if m.Version == "2" && m.State == string(lifecycle.Unavailable) &&
						strings.Contains(m.Reason, "failed to download "+b.address+"/id/2/weights.bin: ") {
						return true
					}
				}
				return false
			})
			if !serves(e, "id:1")() {
				t.Errorf("in service %v", ready(e))
			}
			b.deny.Store(false)
			ch.until(t, "version 2", serves(e, "id:2"))
		})
	t.Run("A021 the index shows how far a download is", func(t *testing.T) {
		b, ch := startBucket(t), newChanges()
		b.hold = make(chan struct{})
		b.put(t, "id/config.pbtxt", oneVersion)
		b.put(t, "id/1/weights.bin", strings.Repeat("x", 3_000_000))
		cloudy := make(chan *engine.Engine, 1)
		e := b.open(t, t.TempDir(), engine.Options{
			ModelOptions: engine.ModelOptions{Events: engine.EventListener{Changed: ch.note}},
			Mode:         engine.ModeExplicit,
		})
		go func() {
			if err := e.LoadModel(context.Background(), "id", engine.LoadParameters{}); err != nil {
				t.Error(err)
			}
			cloudy <- e
		}()
		ch.until(t, "the progress of the version", func() bool {
			m, _ := e.Model("id")
			return len(m.Versions) == 1 && m.Versions[0].Fetching == 3e6 && m.Versions[0].Fetched < 3e6
		})
		ch.until(t, "the progress in the index", func() bool {
			for _, m := range e.RepositoryIndex(false) {
				if m.Version == "1" && m.State == string(lifecycle.Loading) &&
					strings.HasPrefix(m.Reason, "downloading: ") && strings.HasSuffix(m.Reason, " of 3.0 MB") {
					return true
				}
			}
			return false
		})
		close(b.hold)
		<-cloudy
		if m := e.RepositoryIndex(false); len(m) != 1 || m[0].State != string(lifecycle.Ready) || m[0].Reason != "" {
			t.Errorf("index %+v", m)
		}
	})
}
