// Package drivers starts the two drivers of the parity protocol, Node's and this SDK's, each on its own Redis
// server.
package drivers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/interop/parity"
)

// Pair is the reference and the subject of a comparison, with their servers.
type Pair struct {
	Reference, Subject parity.Endpoint
	servers            []*redisserver.Server
	folder             string
}

// Start starts two Redis servers and builds the SDK's driver. line is the major version of the reference, "6"
// or "5". batch is the BatchSize of the SDK's queues and workers; 0 selects the default.
func Start(line string, batch int) (*Pair, error) {
	node, err := nodeprocess.Find()
	if err != nil {
		return nil, err
	}
	root, err := nodeprocess.ModuleRoot()
	if err != nil {
		return nil, err
	}
	p := &Pair{}
	if p.folder, err = os.MkdirTemp("", "parity-"); err != nil {
		return nil, err
	}
	driver := filepath.Join(p.folder, "driver")
	if err := build(root, driver); err != nil {
		p.Close()
		return nil, err
	}
	for range 2 {
		server, err := redisserver.Start(redisserver.Options{})
		if err != nil {
			p.Close()
			return nil, err
		}
		p.servers = append(p.servers, server)
	}
	folder := filepath.Join(root, "interop", "node")
	p.Reference = parity.Endpoint{
		Name: "bullmq " + line, Redis: p.servers[0].Addr(), Resets: true,
		Command: func() *exec.Cmd {
			cmd := exec.Command(node.Node, "driver.mjs", "-redis", p.servers[0].Addr(), "-prefix", "bull", "-bullmq", line)
			cmd.Dir = folder
			return cmd
		},
	}
	p.Subject = parity.Endpoint{
		Name: "bullmq-go", Redis: p.servers[1].Addr(), Resets: true,
		Command: func() *exec.Cmd {
			return exec.Command(driver, "-redis", p.servers[1].Addr(), "-prefix", "bull", "-bullmq", line, "-batch", strconv.Itoa(batch))
		},
	}
	return p, nil
}

var building sync.Mutex // several builds at once of what the cache does not have yet take longer than one

// build builds the SDK's driver, without debug information, which takes less time.
func build(root, driver string) error {
	building.Lock()
	defer building.Unlock()
	cmd := exec.Command("go", "build", "-ldflags=-w", "-o", driver, "./interop/driver")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building interop/driver: %w\n%s", err, out)
	}
	return nil
}

// Scenarios returns the scenarios of interop/scenarios.
func Scenarios() ([]parity.Scenario, error) {
	root, err := nodeprocess.ModuleRoot()
	if err != nil {
		return nil, err
	}
	return parity.Load(filepath.Join(root, "interop", "scenarios"))
}

// Close stops the servers and removes the driver.
func (p *Pair) Close() {
	for _, server := range p.servers {
		server.Close()
	}
	_ = os.RemoveAll(p.folder)
}
