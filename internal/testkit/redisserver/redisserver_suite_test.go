package redisserver

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

// ownerVariable makes the test binary start a server and wait to be killed.
const ownerVariable = "REDISSERVER_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerVariable) == "" {
		os.Exit(m.Run())
	}
	server, err := Start(Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(server.Addr(), server.Directory())
	time.Sleep(time.Minute) // longer than the spec that kills it
}

func TestRedisServer(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(10 * time.Second)
	suite.RunWhole(t, "redisserver")
}

var _ = BeforeEach(leaks.Check)

// start runs a server and closes it after the spec.
func start(options Options) *Server {
	GinkgoHelper()
	server, err := Start(options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	return server
}

// connect returns a client and closes it after the spec.
func connect(option rueidis.ClientOption) rueidis.Client {
	GinkgoHelper()
	option.DisableCache = true
	option.DisableRetry = true
	option.ForceSingleClient = true
	client, err := rueidis.NewClient(option)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(client.Close)
	return client
}

func client(server *Server) rueidis.Client {
	GinkgoHelper()
	option, err := rueidis.ParseURL(server.URL())
	Expect(err).NotTo(HaveOccurred())
	return connect(option)
}

// do sends one command and returns its reply as text.
func do(client rueidis.Client, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return client.Do(ctx, client.B().Arbitrary(words...).Build()).ToString()
}
