package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateAge is how long a certificate is used before its files are looked at again.
const certificateAge = time.Second

// certificate is the certificate of the dashboard, which is read again when its files change.
type certificate struct {
	cert, key string
	logger    *slog.Logger

	mutex   sync.Mutex
	pair    *tls.Certificate
	looked  time.Time
	changed [2]time.Time // when the files had changed
}

// newCertificate reads a certificate and its key; nil without files.
func newCertificate(cert, key string, logger *slog.Logger) (*certificate, error) {
	if cert == "" {
		return nil, nil
	}
	c := &certificate{cert: cert, key: key, logger: logger}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// read reads the files if they have changed.
func (c *certificate) read() error {
	var changed [2]time.Time
	for i, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("bullmq: read the certificate of the dashboard: %w", err)
		}
		changed[i] = info.ModTime()
	}
	if c.pair != nil && changed == c.changed {
		return nil
	}
	if err := checkPrivate(c.key, 0o004, "has a private key"); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("bullmq: read the certificate %s of the dashboard and its key %s: %w", shown(c.cert), shown(c.key), err)
	}
	c.pair, c.changed = &pair, changed
	return nil
}

// config returns the settings of a server.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if now := time.Now(); now.Sub(c.looked) >= certificateAge {
			c.looked = now
			if err := c.read(); err != nil {
				c.logger.Error("the new certificate can't be used, so the old one stays", "error", err)
			}
		}
		return c.pair, nil
	}}
}
