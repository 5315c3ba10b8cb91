// Package certstest makes certificates for tests.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// Pool contains the authority, for clients and servers that trust it.
	Pool *x509.CertPool
	// PEM is its certificate.
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Leaf describes a certificate. The zero value is valid now, for 127.0.0.1 and localhost.
type Leaf struct {
	Hosts   []string // names and addresses
	Expired bool
	NotYet  bool   // it becomes valid in a minute
	Name    string // common name
}

// NewAuthority makes a new authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{Pool: x509.NewCertPool(), key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.Pool.AddCert(a.cert)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// Issue signs a certificate and returns it and its key in PEM.
func (a *Authority) Issue(t testing.TB, l Leaf) (cert, key []byte) {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	if l.Hosts == nil {
		l.Hosts = []string{"127.0.0.1", "localhost"}
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: l.Name},
		NotBefore: time.Now().Add(-30 * time.Minute), NotAfter: time.Now().Add(30 * time.Minute),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if l.Expired {
		template.NotAfter = time.Now().Add(-time.Minute)
	}
	if l.NotYet {
		template.NotBefore = time.Now().Add(time.Minute)
	}
	for _, h := range l.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	k := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// Pair is Issue, with the result in the form of package tls.
func (a *Authority) Pair(t testing.TB, l Leaf) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(t, l))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Write issues a certificate into dir as cert.pem and key.pem, with the certificate of the authority as root.pem.
func (a *Authority) Write(t testing.TB, dir string, l Leaf) (cert, key, root string) {
	t.Helper()
	c, k := a.Issue(t, l)
	cert, key, root = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "root.pem")
	for name, b := range map[string][]byte{cert: c, key: k, root: a.PEM} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, root
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
