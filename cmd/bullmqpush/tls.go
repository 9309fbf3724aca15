package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// loadTLS returns the TLS configuration of the files, or nil if there are none.
func (c *config) loadTLS() (*tls.Config, error) {
	if (c.certFile == "") != (c.keyFile == "") {
		return nil, errors.New("-tls-cert and -tls-key are needed together; set both")
	}
	if c.certFile == "" && c.authoritiesFile == "" {
		return nil, nil
	}
	configuration := &tls.Config{}
	if c.authoritiesFile != "" {
		content, err := os.ReadFile(c.authoritiesFile)
		if err != nil {
			return nil, fmt.Errorf("-tls-ca: %w", err)
		}
		configuration.RootCAs = x509.NewCertPool()
		if !configuration.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("-tls-ca %s: there is no certificate in it; give a file with certificates as PEM", c.authoritiesFile)
		}
	}
	if c.certFile != "" {
		pair := &certificate{certFile: c.certFile, keyFile: c.keyFile}
		if err := pair.load(); err != nil {
			return nil, err
		}
		configuration.GetClientCertificate = pair.get
	}
	return configuration, nil
}

// certificate is a client certificate in files, which are replaced when it is renewed.
type certificate struct {
	certFile, keyFile string

	mu      sync.Mutex
	changed [2]time.Time // of the files, when they were read
	pair    *tls.Certificate
}

// get returns the certificate for a connection. If new files can't be used, it returns the
// certificate that they had before.
func (c *certificate) get(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed := c.changes(); changed != c.changed {
		if err := c.load(); err != nil {
			slog.Warn("the new client certificate can't be used, so the earlier one is", "error", err)
		}
		c.changed = changed
	}
	return c.pair, nil
}

// load reads the files.
func (c *certificate) load() error {
	changed := c.changes()
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("-tls-cert %s and -tls-key %s: %w; give the certificate and its private key as PEM", c.certFile, c.keyFile, err)
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		return fmt.Errorf("-tls-cert %s: the certificate has expired on %s; renew it", c.certFile, end.Format(time.DateOnly))
	}
	c.changed, c.pair = changed, &pair
	return nil
}

// changes returns when the files were changed.
func (c *certificate) changes() (times [2]time.Time) {
	for i, file := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(file); err == nil {
			times[i] = info.ModTime()
		}
	}
	return times
}
