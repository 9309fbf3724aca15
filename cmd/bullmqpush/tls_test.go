package main_test

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
	"net/http"
	"os"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

// pair is a self-signed certificate and its key, as PEM.
type pair struct{ certificate, key string }

// newPair returns a pair for loopback that is valid until a time.
func newPair(name string, end time.Time) pair {
	GinkgoHelper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	Expect(err).NotTo(HaveOccurred())
	key, err := x509.MarshalPKCS8PrivateKey(private)
	Expect(err).NotTo(HaveOccurred())
	return pair{
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
	}
}

// parsed returns the pair for a server.
func (p pair) parsed() tls.Certificate {
	GinkgoHelper()
	certificate, err := tls.X509KeyPair([]byte(p.certificate), []byte(p.key))
	Expect(err).NotTo(HaveOccurred())
	return certificate
}

var _ = It("The command presents a client certificate, and a renewed one without a restart", func() {
	key := bullmqpush.NewKey()
	own, first, second := newPair("server", time.Now().Add(time.Hour)), newPair("first", time.Now().Add(time.Hour)), newPair("second", time.Now().Add(time.Hour))
	clients := x509.NewCertPool()
	Expect(clients.AppendCertsFromPEM([]byte(first.certificate + second.certificate))).To(BeTrue())
	var presented atomic.Value
	to := endpointWith(key, func(w http.ResponseWriter, r *http.Request) {
		presented.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
		w.Header().Set("Connection", "close")
	})
	to.TLS = &tls.Config{Certificates: []tls.Certificate{own.parsed()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	to.StartTLS()

	queue := newQueue()
	certFile, keyFile := write("client.pem", first.certificate), write("client-key.pem", first.key)
	session := sender(key, "-queue", queue.Name()+"="+to.URL, "-tls-cert", certFile, "-tls-key", keyFile, "-tls-ca", write("ca.pem", own.certificate))
	inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
	Expect(presented.Load()).To(Equal("first"))

	replace := func(path, content string) {
		GinkgoHelper()
		Expect(os.WriteFile(path+".new", []byte(content), 0o600)).To(Succeed())
		Expect(os.Chtimes(path+".new", time.Time{}, time.Now().Add(time.Minute))).To(Succeed())
		Expect(os.Rename(path+".new", path)).To(Succeed())
	}
	replace(certFile, second.certificate) // without its key, so that it can't be used yet
	inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
	Expect(presented.Load()).To(Equal("first"))
	Eventually(session.Err).Should(gbytes.Say("the new client certificate can't be used"))
	replace(keyFile, second.key)
	inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
	Expect(presented.Load()).To(Equal("second"))
	Eventually(session.Terminate()).Should(gexec.Exit(0))
})
