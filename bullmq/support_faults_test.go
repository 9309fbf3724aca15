package bullmq_test

// Helpers for specs with faults, and for what the SDK reports about them.

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

// proxiedRedis returns a proxy before the suite's server, whose faults the spec
// decides, and the Connection through it.
func proxiedRedis() (*faultproxy.Proxy, *bullmq.Connection) {
	GinkgoHelper()
	proxy := proxied(redis.Addr())
	return proxy, connectionThrough(proxy)
}

// proxied returns a proxy before the server at an address, for faults.
func proxied(address string) *faultproxy.Proxy {
	GinkgoHelper()
	proxy, err := faultproxy.Start(address)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.Close)
	return proxy
}

// connectionThrough returns a Connection with one socket for all commands, so
// that the spec knows which of them meets a fault.
func connectionThrough(proxy *faultproxy.Proxy) *bullmq.Connection {
	return bullmq.Options(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, PipelineMultiplex: -1})
}

// silenced makes the server behind a proxy stop replying.
func silenced(proxy *faultproxy.Proxy) {
	GinkgoHelper()
	Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
}

var denied = regexp.MustCompile("NOPERM|can't run this command|ACL failure in script|EXECABORT|EXEC without MULTI")

// isDenied reports whether a right was missing, according to Redis or its scripts.
func isDenied(err error) bool { return denied.MatchString(fmt.Sprint(err)) }

// logLines collects and counts the lines that a logger writes.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logLines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte("\n"))
}

// with returns how often the log contains a text.
func (l *logLines) with(part string) int { return strings.Count(l.all(), part) }

// noSpan is a Span that records nothing.
type noSpan struct{}

func (noSpan) SetAttributes(...bullmq.Attribute)    {}
func (noSpan) AddEvent(string, ...bullmq.Attribute) {}
func (noSpan) RecordError(error)                    {}
func (noSpan) End()                                 {}
