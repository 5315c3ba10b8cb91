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

// tlsOptions is the options about TLS.
type tlsOptions struct {
	grpc                      bool
	grpcCA, grpcKey, grpcCert string

	verifyPeer, verifyHost string
	httpCA                 string
	httpCert, certType     string
	httpKey, keyType       string
}

// address is where the server is: of HTTP a URL, of gRPC host:port.
func (o *options) address() string {
	switch {
	case o.protocol == "grpc" && o.url == "":
		return "localhost:8001"
	case o.protocol == "grpc":
		_, host, ok := strings.Cut(o.url, "://")
		if !ok {
			host = o.url
		}
		return strings.TrimRight(host, "/")
	case o.url == "":
		return "http://localhost:8000"
	case strings.Contains(o.url, "://"):
		return o.url
	}
	return "http://" + o.url
}

// host is the server's name or address.
func (o *options) host() string {
	host := o.address()
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		return u.Hostname()
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// dial makes the client by which the load is sent.
func (o *options) dial() (client.Client, error) {
	if o.protocol == "grpc" {
		return o.dialGRPC()
	}
	conf, err := o.tls.http(o.host())
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for _, h := range o.headers {
		name, value, _ := strings.Cut(h, ":")
		header.Add(name, strings.TrimSpace(value))
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, DisableCompression: true,
		MaxIdleConnsPerHost: 1 << 20, // each request under way keeps its connection
	}
	return client.NewHTTP(o.address(), client.HTTPOptions{
		Client: &http.Client{Transport: transport}, Header: header,
		JSONInputs: o.inFormat == "json", JSONOutputs: o.outFormat == "json",
	})
}

func (o *options) dialGRPC() (*client.GRPC, error) {
	g := client.GRPCOptions{Metadata: map[string]string{}, Dial: []grpc.DialOption{perf.GRPCTimes()}}
	for _, h := range o.headers {
		name, value, _ := strings.Cut(h, ":")
		g.Metadata[strings.ToLower(name)] = strings.TrimSpace(value)
	}
	switch o.compression {
	case "gzip":
		g.Dial = append(g.Dial, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	case "deflate":
		g.Dial = append(g.Dial, grpc.WithCompressor(zlibMessages{})) //nolint:staticcheck // the other way is a global
	}
	if o.tls.grpc {
		conf := &tls.Config{MinVersion: tls.VersionTLS12}
		var err error
		if conf.RootCAs, err = roots(o.tls.grpcCA); err != nil {
			return nil, err
		}
		if o.tls.grpcCert != "" || o.tls.grpcKey != "" {
			pair, err := tls.LoadX509KeyPair(o.tls.grpcCert, o.tls.grpcKey)
			if err != nil {
				return nil, fmt.Errorf("--ssl-grpc-certificate-chain-file and --ssl-grpc-private-key-file: %w", err)
			}
			conf.Certificates = []tls.Certificate{pair}
		}
		g.Credentials = credentials.NewTLS(conf)
	}
	return client.NewGRPC(o.address(), g)
}

// zlibMessages compresses messages as grpc-encoding deflate, which is zlib's format.
type zlibMessages struct{}

func (zlibMessages) Type() string { return "deflate" }

func (zlibMessages) Do(w io.Writer, p []byte) error {
	z := zlib.NewWriter(w)
	if _, err := z.Write(p); err != nil {
		return err
	}
	return z.Close()
}

// roots are the authorities of a file; nil, the system's, for none.
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

// http is the configuration of HTTPS, with curl's meaning of the two checks: the peer's is of the chain, the host's of the
// name.
func (t *tlsOptions) http(host string) (*tls.Config, error) {
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
	if t.verifyHost == "0" { // 1 is as good as 2, says curl
		host = ""
	}
	chain := t.verifyPeer == "1"
	conf.VerifyConnection = func(s tls.ConnectionState) error { return verifyParts(s, conf.RootCAs, chain, host) }
	return conf, nil
}

// verifyParts checks a server's chain, its name (unless host is ""), or neither.
func verifyParts(s tls.ConnectionState, authorities *x509.CertPool, chain bool, host string) error {
	leaf := s.PeerCertificates[0]
	if chain {
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between}); err != nil {
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

func pemOf(path, form, kind string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err == nil && form == "DER" {
		b = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})
	}
	return b, err
}
