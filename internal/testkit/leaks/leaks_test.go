package leaks

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestLeaks(t *testing.T) {
	RegisterFailHandler(ginkgo.Fail)
	SetDefaultEventuallyTimeout(10 * time.Second)
	suite.RunWhole(t, "internal/testkit/leaks")
}

var _ = ginkgo.BeforeEach(Check)

var _ = ginkgo.Describe("The leak check", func() {
	ginkgo.It("reports an open connection until it is closed", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		defer listener.Close()
		before := open()
		conn, err := net.Dial("tcp", listener.Addr().String())
		Expect(err).NotTo(HaveOccurred())
		Expect(more(before, open())).NotTo(BeEmpty())
		Expect(open()).NotTo(ContainElement(BeElementOf(ofRuntime)), "it is the runtime that opens these")
		Expect(conn.Close()).To(Succeed())
		Eventually(func() []string { return more(before, open()) }).Should(BeEmpty())
	})

	ginkgo.It("counts equal entries", func() {
		Expect(more([]string{"pipe", "pipe"}, []string{"pipe", "pipe", "pipe", "socket"})).To(Equal([]string{"pipe", "socket"}))
		Expect(more([]string{"pipe", "socket"}, []string{"pipe"})).To(BeEmpty())
	})

	ginkgo.It("lists the open files of the process", func() {
		if runtime.GOOS != "linux" {
			ginkgo.Skip("the list identifies each file only on Linux")
		}
		Expect(open()).NotTo(BeEmpty())
	})
})
