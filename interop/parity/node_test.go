package parity_test

import (
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/interop/parity"
)

const scenarioFolder = "../scenarios"

// nodeEndpoint starts a Redis server and returns an endpoint with the Node driver on it, using bullmq 6 or 5.
func nodeEndpoint(name, line string) parity.Endpoint {
	GinkgoHelper()
	folder, err := filepath.Abs("../node")
	Expect(err).NotTo(HaveOccurred())
	_, err = os.Stat(filepath.Join(folder, "node_modules", "bullmq"))
	Expect(err).NotTo(HaveOccurred(), "run `npm ci` in interop/node")
	node, err := exec.LookPath("node")
	Expect(err).NotTo(HaveOccurred(), "install Node.js 20 or later")

	address := startRedis()
	return parity.Endpoint{
		Name:   name,
		Redis:  address,
		Resets: true,
		Command: func() *exec.Cmd {
			cmd := exec.Command(node, "driver.mjs", "-redis", address, "-prefix", "bull", "-bullmq", line)
			cmd.Dir = folder
			return cmd
		},
	}
}

// startRedis starts a server for the current spec and returns its address.
func startRedis() string {
	GinkgoHelper()
	server, err := redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	return server.Addr()
}
