package perfcmd

import (
	"compress/zlib"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"

	"nereid/app/perf"
	"nereid/engine/client"
)

// tlsOptions are the options of TLS.
type tlsOptions struct {
	grpc                      bool
	grpcCA, grpcKey, grpcCert string

	verifyPeer, verifyHost string
	httpCA                 string
	httpCert, certType     string
	httpKey, keyType       string
}

// address is a URL for HTTP, and host:port for gRPC.
func (s *serverOptions) address() string {
	switch {
	case s.protocol == "grpc" && s.url == "":
		return "localhost:8001"
	case s.protocol == "grpc":
		_, host, ok := strings.Cut(s.url, "://")
		if !ok {
			host = s.url
		}
		return strings.TrimRight(host, "/")
	case s.url == "":
		return "http://localhost:8000"
	case strings.Contains(s.url, "://"):
		return s.url
	}
	return "http://" + s.url
}

// host is the server's name or address.
func (s *serverOptions) host() string {
	host := s.address()
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		return u.Hostname()
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// dial returns a client of the server.
func (s *serverOptions) dial() (client.Client, error) {
	if s.protocol == "grpc" {
		return s.dialGRPC()
	}
	conf, err := s.tls.config(s.host())
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, DisableCompression: true,
		MaxIdleConnsPerHost: 1 << 20, // each request in flight keeps its connection
	}
	return client.NewHTTP(s.address(), client.HTTPOptions{
		Client: &http.Client{Transport: transport}, Header: s.header(),
		JSONInputs: s.inFormat == "json", JSONOutputs: s.outFormat == "json",
	})
}

// header is the header of all requests over HTTP.
func (s *serverOptions) header() http.Header {
	header := http.Header{}
	for _, h := range s.headers {
		name, value, _ := strings.Cut(h, ":")
		header.Add(name, strings.TrimSpace(value))
	}
	return header
}

func (s *serverOptions) dialGRPC() (*client.GRPC, error) {
	g := client.GRPCOptions{Metadata: map[string]string{}, Dial: []grpc.DialOption{perf.GRPCTimes()}}
	for _, h := range s.headers {
		name, value, _ := strings.Cut(h, ":")
		g.Metadata[strings.ToLower(name)] = strings.TrimSpace(value)
	}
	switch s.compression {
	case "gzip":
		g.Dial = append(g.Dial, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	case "deflate":
		g.Dial = append(g.Dial, grpc.WithCompressor(zlibMessages{})) //nolint:staticcheck // the other way is a global
	}
	if s.tls.grpc {
		conf := &tls.Config{MinVersion: tls.VersionTLS12}
		var err error
		if conf.RootCAs, err = roots(s.tls.grpcCA); err != nil {
			return nil, err
		}
		if s.tls.grpcCert != "" || s.tls.grpcKey != "" {
			pair, err := tls.LoadX509KeyPair(s.tls.grpcCert, s.tls.grpcKey)
			if err != nil {
				return nil, fmt.Errorf("--ssl-grpc-certificate-chain-file and --ssl-grpc-private-key-file: %w", err)
			}
			conf.Certificates = []tls.Certificate{pair}
		}
		g.Credentials = credentials.NewTLS(conf)
	}
	return client.NewGRPC(s.address(), g)
}

// zlibMessages compresses messages in grpc-encoding deflate, which is zlib's format.
type zlibMessages struct{}

func (zlibMessages) Type() string { return "deflate" }

func (zlibMessages) Do(w io.Writer, p []byte) error {
	z := zlib.NewWriter(w)
	if _, err := z.Write(p); err != nil {
		return err
	}
	return z.Close()
}

// roots returns the authorities of a file. Without a file it returns nil, which stands for the system's.
func roots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", path)
	}
	return pool, nil
}

// config is the configuration of HTTPS. As in curl, verifyPeer checks the certificate chain and verifyHost the name.
func (t *tlsOptions) config(host string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if conf.RootCAs, err = roots(t.httpCA); err != nil {
		return nil, err
	}
	if t.httpCert != "" || t.httpKey != "" {
		pair, err := t.pair()
		if err != nil {
			return nil, fmt.Errorf("--ssl-https-client-certificate-file and --ssl-https-private-key-file: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	if t.verifyPeer == "1" && t.verifyHost != "0" {
		return conf, nil
	}
	conf.InsecureSkipVerify = true
	if t.verifyHost == "0" { // for curl, 1 means the same as 2
		host = ""
	}
	chain := t.verifyPeer == "1"
	conf.VerifyConnection = func(s tls.ConnectionState) error { return verify(s, conf.RootCAs, chain, host) }
	return conf, nil
}

// verify checks the server's chain if chain is set, and its name unless host is "".
func verify(s tls.ConnectionState, authorities *x509.CertPool, chain bool, host string) error {
	leaf := s.PeerCertificates[0]
	if chain {
		intermediates := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			intermediates.AddCert(c)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: authorities, Intermediates: intermediates}); err != nil {
			return err
		}
	}
	if host != "" {
		return leaf.VerifyHostname(host)
	}
	return nil
}

// pair reads the client's certificate and key, each in PEM or DER.
func (t *tlsOptions) pair() (tls.Certificate, error) {
	cert, err := pemOf(t.httpCert, t.certType, "CERTIFICATE")
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := pemOf(t.httpKey, t.keyType, "PRIVATE KEY")
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// pemOf reads a file and encodes it as PEM if its form is DER.
func pemOf(path, form, kind string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err == nil && form == "DER" {
		b = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})
	}
	return b, err
}
