package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// tlsFiles are the files of a connection over TLS.
type tlsFiles struct {
	CA         string `json:"ca"`         // certificates of the authorities that are trusted
	Cert       string `json:"cert"`       // certificate of the client
	Key        string `json:"key"`        // its key
	ServerName string `json:"serverName"` // in the certificate of the server
}

// target is where the flags, the profile and the environment say that Redis is.
type target struct {
	resolved bool
	address  string
	tls      tlsFiles
	profile  string // "" if none is used
}

// addTargetFlags adds the flags about the connection.
func (c *client) addTargetFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.url, "redis", "", "address of Redis, such as redis://user:password@host:6379/0 or rediss://… for TLS; better REDIS_URL or a profile if it has a password (default REDIS_URL, then "+bullmq.DefaultURL+")")
	flags.StringVar(&c.prefix, "prefix", bullmq.DefaultPrefix, "prefix of the queues")
	flags.StringVar(&c.profile, "profile", "", "name of a profile in the file of profiles, with address, prefix and TLS (default "+profileVariable+")")
	flags.StringVar(&c.tls.CA, "tls-ca", "", "file with the certificates of the authorities that are trusted (default those of the system)")
	flags.StringVar(&c.tls.Cert, "tls-cert", "", "file with the certificate of this client")
	flags.StringVar(&c.tls.Key, "tls-key", "", "file with the key of --tls-cert")
	flags.StringVar(&c.tls.ServerName, "tls-server-name", "", "name in the certificate of the server (default the host of the address)")
}

// resolve finds out where Redis is. Flags take precedence over the profile, and the profile over
// REDIS_URL.
func (c *client) resolve(command *cobra.Command) error {
	if c.target.resolved {
		return nil
	}
	t := target{resolved: true, address: cmp.Or(c.url, os.Getenv("REDIS_URL"), bullmq.DefaultURL), tls: c.tls}
	if c.url != "" && c.profile != "" {
		return usageError{errors.New("give --redis or --profile, not both")}
	}
	if name := cmp.Or(c.profile, os.Getenv(profileVariable)); name != "" && c.url == "" {
		p, err := readProfile(name)
		if err != nil {
			return err
		}
		t.profile, t.address = name, cmp.Or(p.URL, t.address)
		t.tls = tlsFiles{cmp.Or(c.tls.CA, p.TLS.CA), cmp.Or(c.tls.Cert, p.TLS.Cert), cmp.Or(c.tls.Key, p.TLS.Key), cmp.Or(c.tls.ServerName, p.TLS.ServerName)}
		if p.Prefix != "" && !command.Flags().Changed("prefix") {
			c.prefix = p.Prefix
		}
	}
	c.target = t
	return nil
}

// open connects to Redis.
func (c *client) open(ctx context.Context, command *cobra.Command) (*bullmq.Connection, error) {
	if err := c.resolve(command); err != nil {
		return nil, err
	}
	if c.target.tls == (tlsFiles{}) {
		return bullmq.Connect(ctx, c.target.address)
	}
	option, err := c.option()
	if err != nil {
		return nil, err
	}
	return bullmq.ConnectOption(ctx, option)
}

// option returns the options of a client of rueidis.
func (c *client) option() (rueidis.ClientOption, error) {
	address := c.target.address
	_, rest, _ := strings.Cut(address, "://")
	end := strings.IndexAny(rest, "/?#")
	option, err := rueidis.ParseURL(address)
	if err != nil || end >= 0 && strings.Contains(rest[end:], "@") {
		// The error may have the password.
		return option, errors.New("bullmq: connect: the address of Redis can't be read; it should look like rediss://user:password@host:6379/0, with /, ?, # and % as %2F, %3F, %23 and %25 in a password")
	}
	option.DisableCache = true
	if c.target.tls == (tlsFiles{}) {
		return option, nil
	}
	if option.TLSConfig == nil {
		return option, errors.New("bullmq: connect: there are settings for TLS, but the address is not one for TLS: begin it with rediss://")
	}
	option.TLSConfig = option.TLSConfig.Clone()
	return option, c.target.tls.apply(option.TLSConfig)
}

// apply sets what the files have.
func (f tlsFiles) apply(config *tls.Config) error {
	if f.ServerName != "" {
		config.ServerName = f.ServerName
	}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return fmt.Errorf("bullmq: connect: read the certificates of authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("bullmq: connect: the file %s has no certificate of an authority in PEM", f.CA)
		}
	}
	switch {
	case f.Cert == "" && f.Key == "":
		return nil
	case f.Cert == "" || f.Key == "":
		return errors.New("bullmq: connect: the certificate and the key of the client belong together: give both")
	}
	if err := checkPrivate(f.Key, 0o004, "has a private key"); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return fmt.Errorf("bullmq: connect: read the certificate %s and its key %s: %w", f.Cert, f.Key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return nil
}
