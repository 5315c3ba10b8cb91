package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Files are the certificate files of a listener.
type Files struct {
	// Cert and Key are PEM files: the certificate with its chain, leaf first, and its private key.
	Cert, Key string
	// Root is a PEM file with the certificates of the authorities that clients' certificates must come from. It is
	// needed if Mutual is set, otherwise it is not read.
	Root   string
	Mutual bool
	// Protocols are the protocols offered by ALPN.
	Protocols []string
}

// defaultInterval is the shortest time between two checks of the files.
const defaultInterval = time.Second

// source is a set of files and what was last read from them.
type source struct {
	files    Files
	log      *slog.Logger
	interval time.Duration

	config  atomic.Pointer[tls.Config]
	checked atomic.Int64 // UnixNano

	mu    sync.Mutex // guards the rest; held while the files are checked
	seen  [3][]byte  // contents of the files of config
	fault string     // of the last check; the same fault is logged once
}

// New reads the files. The configuration takes TLS 1.2 and newer; it is for servers only. log gets renewals, failed
// renewals, and expired certificates; nil: nothing is logged.
func New(f Files, log *slog.Logger) (*tls.Config, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &source{files: f, log: log, interval: defaultInterval}
	return s.open()
}

func (s *source) open() (*tls.Config, error) {
	contents, err := s.read()
	if err != nil {
		return nil, err
	}
	first, err := s.build(contents)
	if err != nil {
		return nil, err
	}
	s.seen = contents
	s.config.Store(first)
	s.checked.Store(time.Now().UnixNano())
	outer := first.Clone() // its own certificate is for code that reads a configuration before a handshake
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current(), nil }
	return outer, nil
}

// current returns the configuration for a handshake.
func (s *source) current() *tls.Config {
	now, last := time.Now().UnixNano(), s.checked.Load()
	if now-last >= int64(s.interval) && s.checked.CompareAndSwap(last, now) {
		s.reload()
	}
	return s.config.Load()
}

// reload reads the files again, and uses them if they have changed.
func (s *source) reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	contents, err := s.read()
	if err == nil {
		same := true
		for i := range contents {
			same = same && bytes.Equal(contents[i], s.seen[i])
		}
		if same {
			s.fault = ""
			return
		}
		var next *tls.Config
		if next, err = s.build(contents); err == nil {
			s.seen, s.fault = contents, ""
			s.config.Store(next)
			s.log.Info("the TLS files have changed and are in use", "certificate", s.files.Cert)
			return
		}
	}
	if text := err.Error(); text != s.fault {
		s.fault = text
		s.log.Warn("the TLS files have changed but cannot be used; those read before stay in use", "err", text)
	}
}

// read returns the contents of certificate, key and root.
func (s *source) read() (contents [3][]byte, err error) {
	names := [3]string{s.files.Cert, s.files.Key}
	if s.files.Mutual {
		names[2] = s.files.Root
	}
	var errs []error
	for i, name := range names {
		if name == "" {
			continue
		}
		var err error
		if contents[i], err = os.ReadFile(name); err != nil {
			errs = append(errs, fmt.Errorf("TLS: %w", err))
		}
	}
	return contents, errors.Join(errs...)
}

func (s *source) build(contents [3][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("TLS: certificate %s and key %s: %w", s.files.Cert, s.files.Key, err)
	}
	if now := time.Now(); pair.Leaf != nil && (now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore)) {
		s.log.Warn("the TLS certificate is not valid now; clients will refuse it", "certificate", s.files.Cert,
			"from", pair.Leaf.NotBefore, "to", pair.Leaf.NotAfter)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: s.files.Protocols}
	if s.files.Mutual {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return nil, fmt.Errorf("TLS: root certificate %s: it contains no certificate in PEM form", s.files.Root)
		}
	}
	return c, nil
}
