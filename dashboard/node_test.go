package dashboard_test

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// nodeClient is a client of BullMQ that carries out operations.
type nodeClient struct {
	process *nodeprocess.Process
	last    int
}

// node starts a client of BullMQ until the spec ends. version is 6 or 5.
func (s *site) node(version string) *nodeClient {
	GinkgoHelper()
	process, err := nodeprocess.Start("driver.mjs", "-redis", s.redis.Addr(), "-bullmq", version)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Stop)
	return &nodeClient{process: process}
}

// do carries out an operation of the driver in interop/node.
func (n *nodeClient) do(operation string, arguments map[string]any) json.RawMessage {
	GinkgoHelper()
	n.last++
	Expect(n.process.Send(map[string]any{"id": n.last, "op": operation, "args": arguments})).To(Succeed())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var response struct {
		ID     int
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	_, err := n.process.WaitFor(ctx, func(line nodeprocess.Line) bool {
		return line.Decode(&response) == nil && response.ID == n.last
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Error).To(BeNil())
	return response.Result
}
