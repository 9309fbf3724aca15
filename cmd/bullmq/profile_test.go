package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// authority makes certificates in a directory: ca.pem, server.pem and client.pem with their keys.
func authority(directory string) {
	GinkgoHelper()
	write := func(name, kind string, der []byte, mode os.FileMode) {
		Expect(os.WriteFile(filepath.Join(directory, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)).To(Succeed())
	}
	issue := func(name string, template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		if parent == nil {
			parent, parentKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		Expect(err).NotTo(HaveOccurred())
		write(name+".pem", "CERTIFICATE", der, 0o644)
		encoded, err := x509.MarshalPKCS8PrivateKey(key)
		Expect(err).NotTo(HaveOccurred())
		write(name+"-key.pem", "PRIVATE KEY", encoded, 0o600)
		certificate, err := x509.ParseCertificate(der)
		Expect(err).NotTo(HaveOccurred())
		return certificate, key
	}
	ca, caKey := issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	issue("server", &x509.Certificate{DNSNames: []string{"redis.internal"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca, caKey)
	issue("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca, caKey)
}

// configured is a home with a file of profiles.
type configured struct{ directory string }

func configure(profiles string, mode os.FileMode) configured {
	GinkgoHelper()
	c := configured{GinkgoT().TempDir()}
	Expect(os.MkdirAll(filepath.Join(c.directory, "bullmq"), 0o700)).To(Succeed())
	Expect(os.WriteFile(c.file(), []byte(profiles), mode)).To(Succeed())
	Expect(os.Chmod(c.file(), mode)).To(Succeed())
	return c
}

func (c configured) file() string { return filepath.Join(c.directory, "bullmq", "config.json") }

// run runs the program with the file, and with variables of the environment.
func (c configured) run(code int, environment []string, arguments ...string) (output, errors string) {
	GinkgoHelper()
	command := exec.Command(os.Getenv(programVariable), arguments...)
	command.Env = append(append(os.Environ(), "XDG_CONFIG_HOME="+c.directory, "REDIS_URL=redis://127.0.0.1:1"), environment...)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	Eventually(session, "30s").Should(gexec.Exit(code))
	return string(session.Out.Contents()), string(session.Err.Contents())
}

var _ = Describe("Profiles of the command", func() {
	It("name address and prefix, with the password from the environment", func() {
		redis, err := redisserver.Start(redisserver.Options{Password: `p@ss/w:rd #%é`})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(redis.Close)
		c := configure(`{"profiles": {"shop": {"url": "redis://:${SHOP_PASSWORD}@${SHOP_HOST}/2", "prefix": "shop"}}}`, 0o644)
		environment := []string{`SHOP_PASSWORD=p@ss/w:rd #%é`, "SHOP_HOST=" + redis.Addr()}
		c.run(0, environment, "add", "orders", "paint", "--profile", "shop")
		output, _ := c.run(0, append(environment, "BULLMQ_PROFILE=shop"), "queues")
		Expect(output).To(ContainSubstring(`"name":"orders"`))
		output, _ = c.run(0, environment, "queues", "--profile", "shop", "--prefix", "bull")
		Expect(output).To(BeEmpty())
		output, _ = c.run(4, environment, "doctor", "--profile", "shop", "orders")
		Expect(output).To(And(ContainSubstring("database 2, prefix shop"), ContainSubstring(`bullmq workers --profile shop --prefix shop`), Not(ContainSubstring("p@ss"))))
		_, errors := c.run(1, environment[1:], "queues", "--profile", "shop")
		Expect(errors).To(And(ContainSubstring("read url of the profile shop in "+c.file()), ContainSubstring("the environment variable SHOP_PASSWORD is not set")))
		_, errors = c.run(2, environment, "queues", "--profile", "shop", "--redis", "redis://127.0.0.1")
		Expect(errors).To(ContainSubstring("give --redis or --profile, not both"))
		session := gexecTail(c, environment)
		Eventually(session.Out, "20s").Should(gbytes.Say(`"event":"added"`))
		session.Interrupt()
		Eventually(session, "20s").Should(gexec.Exit(0))
	})

	It("connect over TLS with the files of the profile or of flags", func() {
		c := configure(`{"profiles": {
			"secure": {"url": "rediss://${REDIS_ADDR}", "tls": {"ca": "ca.pem", "cert": "client.pem", "key": "client-key.pem", "serverName": "redis.internal"}},
			"trusting": {"url": "rediss://${REDIS_ADDR}", "tls": {"serverName": "redis.internal"}},
			"anonymous": {"url": "rediss://${REDIS_ADDR}", "tls": {"ca": "ca.pem", "serverName": "redis.internal"}},
			"misnamed": {"url": "rediss://${REDIS_ADDR}", "tls": {"ca": "ca.pem", "cert": "client.pem", "key": "client-key.pem"}},
			"plain": {"url": "redis://${REDIS_ADDR}", "tls": {"ca": "ca.pem"}},
			"half": {"url": "rediss://${REDIS_ADDR}", "tls": {"cert": "client.pem"}},
			"lost": {"url": "rediss://${REDIS_ADDR}", "tls": {"ca": "lost.pem"}},
			"nonsense": {"url": "rediss://${REDIS_ADDR}", "tls": {"ca": "config.json"}}
		}}`, 0o600)
		directory := filepath.Dir(c.file())
		authority(directory)
		port, err := redisserver.FreePort()
		Expect(err).NotTo(HaveOccurred())
		file := func(name string) string { return filepath.Join(directory, name) }
		redis, err := redisserver.Start(redisserver.Options{Config: []string{
			fmt.Sprintf("tls-port %d", port), "tls-cert-file " + file("server.pem"), "tls-key-file " + file("server-key.pem"), "tls-ca-cert-file " + file("ca.pem"), "tls-auth-clients yes",
		}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(redis.Close)
		address := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
		environment := []string{"REDIS_ADDR=" + address}
		c.run(0, environment, "add", "orders", "paint", "--profile", "secure")
		output, _ := c.run(0, environment, "queues", "--redis", "rediss://"+address, "--tls-ca", file("ca.pem"), "--tls-cert", file("client.pem"), "--tls-key", file("client-key.pem"), "--tls-server-name", "redis.internal")
		Expect(output).To(ContainSubstring(`"name":"orders"`))
		c.run(4, environment, "doctor", "orders", "--profile", "secure")
		for profile, text := range map[string]string{
			"trusting":  "certificate signed by unknown authority",
			"anonymous": "the server may ask for a certificate of the client",
			"misnamed":  "certificate",
			"plain":     "begin it with rediss://",
			"half":      "belong together: give both",
			"lost":      "read the certificates of authorities: open " + file("lost.pem"),
			"nonsense":  "has no certificate of an authority in PEM",
		} {
			_, errors := c.run(1, environment, "queues", "--profile", profile)
			Expect(errors).To(ContainSubstring(text), profile)
		}
		Expect(os.Chmod(file("client-key.pem"), 0o644)).To(Succeed())
		_, errors := c.run(1, environment, "queues", "--profile", "secure")
		Expect(errors).To(And(ContainSubstring("has a private key, and other users may read it (0644)"), ContainSubstring("chmod 600 ")))
	})

	It("refuse a file with a password that other users may read", func() {
		s := open()
		c := configure(fmt.Sprintf(`{"profiles": {"here": {"url": "%s"}, "other": {"url": "redis://user:secret@host"}}}`, s.url), 0o644)
		_, errors := c.run(1, nil, "queues", "--profile", "here")
		Expect(errors).To(And(ContainSubstring("has a password, and other users may read it (0644): run chmod 600 "+c.file()), Not(ContainSubstring("secret"))))
		Expect(os.Chmod(c.file(), 0o600)).To(Succeed())
		c.run(0, nil, "queues", "--profile", "here")
	})

	It("tell what is wrong with the file", func() {
		for text, message := range map[string]string{
			"{\n\"profiles\": {\n\"a\": {\"url\" \"x\"}}}":       "line 3: invalid character",
			`{"profiles": {"a": {"uri": "redis://h"}}}`:          `unknown field "uri"`,
			`{"profiles": {"a": {"url": 7}}}`:                    "line 1: json: cannot unmarshal number",
			`{"profiles": {"b": {}, "c": {}}}`:                   "there is no profile a in",
			`{"profiles": {"a": {"url": "redis://${A"}}}`:        "a ${ has no }",
			`{"profiles": {"a": {"url": "redis://u:p/@h"}}}`:     "the address of Redis can't be read",
			`{"profiles": {"a": {"url": "redis://h:notaport"}}}`: "can't be read",
			`{} {}`: "there is more after the object",
		} {
			_, errors := configure(text, 0o600).run(1, nil, "queues", "--profile", "a", "--tls-server-name", map[bool]string{true: "x"}[message == "the address of Redis can't be read"])
			Expect(errors).To(ContainSubstring(message), text)
			Expect(errors).NotTo(ContainSubstring("u:p"))
		}
		_, errors := configured{GinkgoT().TempDir()}.run(1, nil, "queues", "--profile", "a")
		Expect(errors).To(And(ContainSubstring("there is no file"), ContainSubstring("it should look like")))
	})
})

// gexecTail follows a queue of the profile shop.
func gexecTail(c configured, environment []string) *gexec.Session {
	GinkgoHelper()
	command := exec.Command(os.Getenv(programVariable), "tail", "orders", "--profile", "shop", "--after", "0-0")
	command.Env = append(append(os.Environ(), "XDG_CONFIG_HOME="+c.directory), environment...)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait("10s") })
	return session
}
