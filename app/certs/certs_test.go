package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/certs/certstest"
)

// handshake connects a client with the configuration to a server with the other one, and returns the server's
// certificate as the client sees it. Both ends must agree for a nil error.
func handshake(t *testing.T, server, client *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if tls.Server(c, server).Handshake() == nil {
			_, _ = c.Read(make([]byte, 1)) // until the client has what it wants
		}
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := tls.Client(raw, client)
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	return c.ConnectionState().PeerCertificates[0], nil
}

// TestRenewal: the next handshake has the new certificate; one that cannot be used leaves the old one in service.
func TestH10_RenewalWithoutARestart(t *testing.T) {
	dir, authority := t.TempDir(), certstest.NewAuthority(t)
	cert, key, _ := authority.Write(t, dir, certstest.Leaf{Name: "first"})
	var log bytes.Buffer
	// every handshake looks
	s := &source{files: Files{Cert: cert, Key: key}, log: slog.New(slog.NewTextHandler(&log, nil))}
	server, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	client := &tls.Config{RootCAs: authority.Pool, ServerName: "localhost"}
	seen := func(want string) {
		t.Helper()
		if c, err := handshake(t, server, client); err != nil || c.Subject.CommonName != want {
			t.Errorf("the client sees %v, %v; want %s", c, err, want)
		}
	}
	seen("first")
	newCert, newKey := authority.Issue(t, certstest.Leaf{Name: "second"})
	write(t, cert, newCert)
	seen("first") // the key is not there yet
	seen("first")
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("a half-finished renewal is reported %d times, want once\n%s", n, log.String())
	}
	write(t, key, newKey)
	seen("second")
	write(t, cert, []byte("no certificate"))
	seen("second")
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	seen("second")
	write(t, cert, newCert)
	seen("second")
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreCheckedAtMostOncePerSecond(t *testing.T) {
	dir, authority := t.TempDir(), certstest.NewAuthority(t)
	cert, key, _ := authority.Write(t, dir, certstest.Leaf{})
	s := &source{files: Files{Cert: cert, Key: key}, log: slog.New(slog.DiscardHandler), interval: 1 << 62}
	if _, err := s.open(); err != nil {
		t.Fatal(err)
	}
	before := s.config.Load()
	newCert, newKey := authority.Issue(t, certstest.Leaf{})
	write(t, cert, newCert)
	write(t, key, newKey)
	if s.current() != before {
		t.Error("the files are read by every handshake")
	}
}

func TestBadFiles(t *testing.T) {
	dir, authority := t.TempDir(), certstest.NewAuthority(t)
	cert, key, _ := authority.Write(t, dir, certstest.Leaf{})
	empty := filepath.Join(dir, "empty.pem")
	write(t, empty, nil)
	for name, tt := range map[string]struct {
		files Files
		want  string
	}{
		"no certificate":        {Files{Cert: filepath.Join(dir, "none"), Key: key}, "none"},
		"no key":                {Files{Cert: cert, Key: filepath.Join(dir, "none")}, "none"},
		"an empty certificate":  {Files{Cert: empty, Key: key}, "empty.pem"},
		"certificate for a key": {Files{Cert: key, Key: cert}, "cert.pem"},
		"an empty root":         {Files{Cert: cert, Key: key, Root: empty, Mutual: true}, "root certificate"},
	} {
		if _, err := New(tt.files, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, tt.want)
		}
	}
	var log bytes.Buffer
	cert, key, _ = authority.Write(t, dir, certstest.Leaf{Expired: true})
	if _, err := New(Files{Cert: cert, Key: key}, slog.New(slog.NewTextHandler(&log, nil))); err != nil ||
		!strings.Contains(log.String(), "not valid now") {
		t.Errorf("an expired certificate: %v, the log says %q", err, log.String())
	}
}
