package redis

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"nereid/engine/cache"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func open(t *testing.T, log *lines, settings map[string]string) *Cache {
	t.Helper()
	var l *slog.Logger
	if log != nil {
		l = slog.New(slog.NewTextHandler(log, nil))
	}
	c, err := New(settings, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func at(t *testing.T, s *miniredis.Miniredis) map[string]string {
	t.Helper()
	return map[string]string{"host": s.Host(), "port": s.Port()}
}

func owner(t *testing.T, c *Cache, identity string) cache.Owner {
	t.Helper()
	o, err := c.NewOwner(context.Background(), func() (string, error) { return identity, nil })
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func request(data string) *infer.Request {
	r := infer.NewDetached()
	r.Inputs = append(r.Inputs,
		tensor.Tensor{Name: "IN", DataType: tensor.Uint8, Shape: []int64{int64(len(data))}, Data: []byte(data)})
	return r
}

func response(data string) *infer.Response {
	p := &infer.Response{Final: true}
	p.AddOutput("OUT", tensor.Uint8, []int64{int64(len(data))}, []byte(data), nil)
	p.Parameters = []infer.Parameter{{Name: "p", Kind: infer.IntParameter, Int: 7}}
	return p
}

// waitForKeys waits until the server has n keys.
func waitForKeys(t *testing.T, s *miniredis.Miniredis, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(s.Keys()) < n; {
		if time.Now().After(end) {
			t.Fatalf("the server has %d keys, want %d", len(s.Keys()), n)
		}
		runtime.Gosched()
	}
}

func TestSharedByIdentity(t *testing.T) {
	s := miniredis.RunT(t)
	one, two := open(t, nil, at(t, s)), open(t, nil, at(t, s))
	a := owner(t, one, "files")
	k := one.Key(a, request("q"))
	if got, _ := one.Lookup(k, infer.Now()); got != nil {
		t.Fatal("an empty cache has a response")
	}
	one.Insert(k, a, response("answer"))
	waitForKeys(t, s, 1)

	t.Run("C080 another process with the same files has the response", func(t *testing.T) {
		b := owner(t, two, "files")
		got, _ := two.Lookup(two.Key(b, request("q")), infer.Now())
		if got == nil || string(got.Outputs[0].Data) != "answer" || got.Outputs[0].Name != "OUT" ||
			got.Parameters[0].Int != 7 {
			t.Fatalf("got %+v", got)
		}
	})
	t.Run("C080 other files or another request do not", func(t *testing.T) {
		other := owner(t, two, "other files")
		same := owner(t, two, "files")
		for _, k := range []infer.CacheKey{two.Key(other, request("q")), two.Key(same, request("r"))} {
			if got, _ := two.Lookup(k, infer.Now()); got != nil {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("an invalid entry is a miss", func(t *testing.T) {
		if err := s.Set(name(k), "\x01\xff"); err != nil {
			t.Fatal(err)
		}
		if got, _ := one.Lookup(k, infer.Now()); got != nil {
			t.Errorf("got %+v", got)
		}
	})
	if st := one.Stats(); st.Hits != 0 || st.Misses != 2 || st.Lookups != 2 || st.Size != 0 || st.Insertion <= 0 {
		t.Errorf("counts %+v", st)
	}
}

func TestServerThatIsDown(t *testing.T) {
	s := miniredis.RunT(t)
	log := &lines{}
	c := open(t, log, at(t, s))
	o := owner(t, c, "files")
	k := c.Key(o, request("q"))
	s.Close()
	if got, _ := c.Lookup(k, infer.Now()); got != nil {
		t.Fatal("a response from a server that is down")
	}
	for range 100 {
		c.Insert(k, o, response("x")) // the server is not used, so nothing waits for a timeout
		if got, _ := c.Lookup(k, infer.Now()); got != nil {
			t.Fatal("a response from a server that is down")
		}
	}
	if n := strings.Count(log.String(), "cannot look up"); n != 1 {
		t.Errorf("the log says %d times that the server is down, want once:\n%s", n, log.String())
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	// The client library retries a server that failed after a second.
	for end := time.Now().Add(time.Minute); c.retryAt.Load() != 0 && time.Now().Before(end); {
		c.retryAt.Store(1) // our own retryInterval is over
		if got, _ := c.Lookup(k, infer.Now()); got != nil {
			t.Fatal("an empty server has a response")
		}
	}
	if !strings.Contains(log.String(), "answers again") {
		t.Errorf("the log does not say that it is back:\n%s", log.String())
	}
	c.Insert(k, o, response("y"))
	waitForKeys(t, s, 1)
}

// A server that starts before its Redis server serves; its log says at once that there is no cache.
func TestAServerThatCannotBeReachedIsLoggedBeforeARequest_DV109(t *testing.T) {
	s := miniredis.RunT(t)
	settings := at(t, s)
	s.Close()
	log := &lines{}
	open(t, log, settings)
	for end := time.Now().Add(time.Minute); !strings.Contains(log.String(), "the redis cache cannot look up"); {
		if time.Now().After(end) {
			t.Fatalf("the log says %q", log.String())
		}
		runtime.Gosched()
	}
}

func TestServerIsNotUsedForASecondAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Cache
		c.log = slog.New(slog.DiscardHandler)
		c.failed("look up", net.ErrClosed)
		if c.available() {
			t.Error("used immediately after an error")
		}
		time.Sleep(retryInterval)
		if !c.available() {
			t.Error("not used after retryInterval")
		}
	})
}

func TestPassword(t *testing.T) {
	s := miniredis.RunT(t)
	s.RequireUserAuth("nereid", "secret")
	k := infer.CacheKey{1, 2}
	t.Run("H090 right, from the environment", func(t *testing.T) {
		t.Setenv("TRITONCACHE_REDIS_USERNAME", "nereid")
		t.Setenv("TRITONCACHE_REDIS_PASSWORD", "secret")
		log := &lines{}
		c := open(t, log, at(t, s))
		c.Lookup(k, infer.Now())
		if log.String() != "" {
			t.Error(log.String())
		}
	})
	t.Run("wrong", func(t *testing.T) {
		log := &lines{}
		settings := at(t, s)
		settings["user"], settings["password"] = "nereid", "guess"
		c := open(t, log, settings)
		c.Lookup(k, infer.Now())
		if !strings.Contains(log.String(), "WRONGPASS") || strings.Contains(log.String(), "guess") {
			t.Errorf("the log says %q", log.String())
		}
	})
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct{ name, key, value, want string }{
		{"no host", "port", "1", "needs a host"},
		{"port", "port", "x", "not a number from 1 to 65535"},
		{"port 0", "port", "0", "not a number from 1 to 65535"},
		{"port of 17 bits", "port", "65536", "not a number from 1 to 65535"},
		{"pool size", "pool_size", "0", "from 1 on"},
		{"timeout", "connect_timeout", "-1", "milliseconds"},
		{"TLS", "tls_enabled", "perhaps", "=perhaps: it is not a boolean; use true, on or 1, or false"},
		{"unknown", "hots", "x", "no such setting"},
		{"certificate", "cert", "/nonexistent.pem", "redis,cert"},
		{"authority", "cacert", "/nonexistent.pem", "redis,cacert"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings := map[string]string{"tls_enabled": "true"}
			settings[tt.key] = tt.value
			if tt.name != "no host" {
				settings["host"] = "localhost"
			}
			err := Check(settings)
			if status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want one with %q", err, tt.want)
			}
		})
	}
	valid := map[string]string{"host": "h", "port": "1", "user": "u", "password": "p", "db": "2",
		"connect_timeout": "10",
		"socket_timeout":  "20", "pool_size": "3", "wait_timeout": "4"}
	if err := Check(valid); err != nil {
		t.Error(err)
	}
	for value, want := range map[string]bool{"true": true, "On": true, "1": true, "FALSE": false, "off": false} {
		if s, err := parse(map[string]string{"host": "h", "tls_enabled": value}); err != nil || s.tls != want {
			t.Errorf("tls_enabled %s: %v, want %v", value, err, want)
		}
	}
}

// As OpenSSL does with such a folder: what is no certificate does not matter. Without one, no server could be trusted,
// and the system's authorities are not meant.
func TestFolderOfAuthorities_C080(t *testing.T) {
	certificate := selfSigned(t)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a certificate beside a folder and another file",
			map[string]string{"ca.pem": certificate, "java/cacerts": "", "README": "authorities"}, ""},
		{"no certificate", map[string]string{"README": "authorities"}, "has no certificate"},
		{"nothing", nil, "has no certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, text := range tt.files {
				path := filepath.Join(folder, name)
				err := os.MkdirAll(filepath.Dir(path), 0o755)
				if err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			err := Check(map[string]string{"host": "localhost", "tls_enabled": "true", "cacert_dir": folder})
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want := "redis,cacert_dir: " + folder + " " + tt.want
			if status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	err := Check(map[string]string{"host": "localhost", "tls_enabled": "true", "cacert_dir": "/nonexistent"})
	if status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), "redis,cacert_dir") {
		t.Errorf("got %v for a folder that is not there", err)
	}
}

// selfSigned returns a certificate, PEM.
func selfSigned(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
