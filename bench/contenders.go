package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// rival is one of the compared libraries.
type rival struct {
	name     string
	command  []string // starts its program; the part's arguments follow
	cannot   []string // parts that it does not support
	isBullMQ bool     // its jobs are BullMQ jobs
}

func (r rival) can(part string) bool { return !slices.Contains(r.cannot, part) }

func (r rival) start(p contender.Part) (*program, error) {
	return start(exec.Command(r.command[0], slices.Concat(r.command[1:], p.Arguments())...))
}

// The names of the contenders in the order of the tables. Ratios are relative to Node.
const (
	nodeName  = "Node"
	ownName   = "bullmq-go"
	asynqName = "asynq"
)

// findRivals determines how to start each contender and builds its program if necessary.
func (h *harness) findRivals(directory string) error {
	node, err := nodeprocess.Find()
	if err != nil {
		return err
	}
	root, err := nodeprocess.ModuleRoot()
	if err != nil {
		return err
	}
	asynq := filepath.Join(directory, "asynq")
	build := exec.Command("go", "build", "-C", filepath.Join(root, "bench", "asynq"), "-o", asynq, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	h.asynq, h.nodeDirectory = asynq, node.Directory
	h.rivals = append(bullmqRivals(node), rival{name: asynqName, command: []string{asynq}, cannot: []string{"bulk", "events"}})
	return nil
}

func bullmqRivals(node nodeprocess.Installation) []rival {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return []rival{
		{name: nodeName, command: []string{node.Node, filepath.Join(node.Directory, "bench.mjs")}, isBullMQ: true},
		{name: ownName, command: []string{self, contenderArgument}, isBullMQ: true},
	}
}
