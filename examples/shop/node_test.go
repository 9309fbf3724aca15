package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmqtest"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// runNode runs one of the Node programs with a version of BullMQ of interop/node.
func runNode(t *testing.T, bullmq string, kit *bullmqtest.Kit, redis *redisserver.Server, program string, arguments ...string) *nodeprocess.Process {
	t.Helper()
	node, err := nodeprocess.Find()
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	command := exec.Command(node.Node, append([]string{filepath.Join(directory, program)}, arguments...)...)
	_, port, err := net.SplitHostPort(redis.Addr())
	command.Env = append(os.Environ(), "REDIS_PORT="+port, "PREFIX="+kit.Prefix())
	err = errors.Join(err,
		os.CopyFS(directory, os.DirFS("node")),
		os.Mkdir(filepath.Join(directory, "node_modules"), 0o755),
		os.Symlink(filepath.Join(node.Directory, "node_modules", bullmq), filepath.Join(directory, "node_modules", "bullmq")),
	)
	if err != nil {
		t.Fatal(err)
	}
	process, err := nodeprocess.Run(program, command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { process.Stop() })
	return process
}

func TestANodeProducerAndANodeConsumerShareTheQueues(t *testing.T) {
	redis, err := redisserver.Start(redisserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	for _, version := range []string{"bullmq", "bullmq5"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			kit := bullmqtest.New(t, &bullmqtest.Options{RedisURL: redis.URL(), RunningClock: true})
			s := start(t, kit, 0, ordersQueue, reportsQueue)
			text, _ := json.Marshal(order)
			consumer := runNode(t, version, kit, redis, "consumer.mjs")
			producer := runNode(t, version, kit, redis, "producer.mjs", string(text))

			// first reads the first line that a program writes.
			first := func(process *nodeprocess.Process, result any) {
				line, err := process.WaitFor(ctx, func(nodeprocess.Line) bool { return true })
				if err == nil {
					err = line.Decode(result)
				}
				if err != nil {
					t.Fatalf("read a line: %v; log:\n%s", err, s.log)
				}
			}
			var ordered struct{ Receipt Receipt }
			if first(producer, &ordered); ordered.Receipt != (Receipt{Number: "A1", Cents: 4200}) {
				t.Errorf("the producer wrote %+v", ordered)
			}
			var mailed struct {
				Sent      Mail
				RequestID string
			}
			if first(consumer, &mailed); mailed.Sent != (Mail{To: order.Email, Subject: "order A1"}) || mailed.RequestID != "from-node" {
				t.Errorf("the consumer wrote %+v", mailed)
			}
		})
	}
}
