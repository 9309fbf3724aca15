package bullmqhttp_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// command sends one command to a server and returns its reply as text.
func command(to *redisserver.Server, words ...string) string {
	GinkgoHelper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{to.Addr()}, DisableCache: true, ForceSingleClient: true})
	Expect(err).NotTo(HaveOccurred())
	defer client.Close()
	reply, err := client.Do(context.Background(), client.B().Arbitrary(words...).Build()).ToString()
	Expect(err).NotTo(HaveOccurred())
	return reply
}

// fill makes a server refuse writes.
func fill(server *redisserver.Server) { command(server, "CONFIG", "SET", "maxmemory", "1") }

// reading returns the number of connections to the suite's server that wait for events.
func reading() int {
	GinkgoHelper()
	return strings.Count(command(redis, "CLIENT", "LIST"), "cmd=xread")
}
