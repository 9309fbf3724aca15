package bullmq_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// authority is a certificate authority that signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

var serials int64

func newAuthority(name string) *authority {
	GinkgoHelper()
	a := &authority{}
	a.key, a.pem, a.certificate = sign(nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// sign returns a certificate and its key. Without an authority, the certificate is self-signed.
func sign(by *authority, template *x509.Certificate) (*ecdsa.PrivateKey, []byte, *x509.Certificate) {
	GinkgoHelper()
	serials++
	template.SerialNumber = big.NewInt(serials)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), certificate
}

// issue returns a certificate for a server or client at 127.0.0.1, as files and as a tls.Certificate.
func (a *authority) issue(hosts ...string) (certFile, keyFile string, pair tls.Certificate) {
	GinkgoHelper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "redis"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, certPEM, _ := sign(a, template)
	der, err := x509.MarshalECPrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	pair, err = tls.X509KeyPair(certPEM, keyPEM)
	Expect(err).NotTo(HaveOccurred())
	return write(certPEM), write(keyPEM), pair
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func write(content []byte) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "file.pem")
	Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
	return path
}

// overTLS starts a server with a certificate for some hosts and returns its TLS address.
func (a *authority) overTLS(clients string, hosts ...string) string {
	GinkgoHelper()
	certFile, keyFile, _ := a.issue(hosts...)
	port, err := redisserver.FreePort()
	Expect(err).NotTo(HaveOccurred())
	server, err := redisserver.Start(redisserver.Options{Password: "s3cret", Config: []string{
		fmt.Sprint("tls-port ", port), "tls-cert-file " + certFile, "tls-key-file " + keyFile, "tls-ca-cert-file " + write(a.pem),
		"tls-auth-clients " + clients,
	}})
	if err != nil && strings.Contains(err.Error(), "tls-port") {
		Skip("this redis-server was built without TLS")
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	return fmt.Sprint("127.0.0.1:", port)
}

var _ = Describe("A connection over TLS", Label("slow"), func() {
	var own *authority
	BeforeEach(func() { own = newAuthority("the company's own") })

	trusting := func(address string, config *tls.Config) *bullmq.Connection {
		return bullmq.Options(rueidis.ClientOption{InitAddress: []string{address}, Password: "s3cret", TLSConfig: config})
	}
	refused := func(link *bullmq.Connection, address string, says ...string) {
		GinkgoHelper()
		begun := time.Now()
		_, err := bullmq.NewQueue(context.Background(), "q", &bullmq.QueueOptions{Connection: link})
		Expect(err).To(MatchError(And(ContainSubstring("Redis at "+address), Not(ContainSubstring("s3cret")))))
		for _, text := range says {
			Expect(err).To(MatchError(ContainSubstring(text)))
		}
		Expect(time.Since(begun)).To(BeNumerically("<", 5*time.Second))
	}

	It("adds, runs, waits for and follows jobs with a private certificate authority", func() {
		address := own.overTLS("no", "127.0.0.1")
		roundTrip(newQueueName(), "", trusting(address, &tls.Config{RootCAs: own.pool()}))
	})

	It("accepts a configured server name and rejects certificates for others", func() {
		address := own.overTLS("no", "redis.example.org")
		roundTrip(newQueueName(), "", trusting(address, &tls.Config{RootCAs: own.pool(), ServerName: "redis.example.org"}))
		refused(trusting(address, &tls.Config{RootCAs: own.pool()}), address, "certificate", "ServerName")
	})

	It("works with a client certificate and reports one that is missing or untrusted", func() {
		address := own.overTLS("yes", "127.0.0.1")
		_, _, client := own.issue("client")
		roundTrip(newQueueName(), "", trusting(address, &tls.Config{RootCAs: own.pool(), Certificates: []tls.Certificate{client}}))
		refused(trusting(address, &tls.Config{RootCAs: own.pool()}), address, "certificate of the client")
		_, _, stranger := newAuthority("another").issue("client")
		refused(trusting(address, &tls.Config{RootCAs: own.pool(), Certificates: []tls.Certificate{stranger}}), address, "certificate of the client")
	})

	It("rejects a certificate from an unknown authority, also when configured by URL", func() {
		address := own.overTLS("no", "127.0.0.1")
		refused(trusting(address, &tls.Config{RootCAs: newAuthority("another").pool()}), address, "unknown authority", "RootCAs")
		refused(bullmq.URL("rediss://:s3cret@"+address), address, "unknown authority", "RootCAs")
	})

	It("skips verification if the URL says so", func() {
		address := own.overTLS("no", "127.0.0.1")
		roundTrip(newQueueName(), "", bullmq.URL("rediss://:s3cret@"+address+"?skip_verify=true"))
	})

	It("reports a server without TLS, and a TLS server that is called without it", func() {
		plain := startRedis(redisserver.Options{Password: "s3cret"})
		refused(bullmq.URL("rediss://:s3cret@"+plain.Addr()), plain.Addr(), "not speak TLS there", "redis://")
		address := own.overTLS("no", "127.0.0.1")
		refused(bullmq.URL("redis://:s3cret@"+address), address, "rediss://")
	})
})
