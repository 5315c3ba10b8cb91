package terminal

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// tlsConfig returns the configuration of https with the authorities of a file; "" stands for the system's.
func tlsConfig(ca string, insecure bool) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} //nolint:gosec // the user's choice
	if ca == "" {
		return conf, nil
	}
	b, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	conf.RootCAs = x509.NewCertPool()
	if !conf.RootCAs.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", ca)
	}
	return conf, nil
}
