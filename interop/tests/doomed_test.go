package tests

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess/childprocess"
)

// doomedVariable makes the test binary run a Go worker that waits to be killed. Its arguments are the address
// of Redis and the queue.
const doomedVariable = "INTEROP_DOOMED_WORKER"

// Workers that are killed use short locks, and all workers of the queue check for stalled jobs this often:
// the longest interval determines the check.
const (
	shortLock           = 3 * time.Second
	frequentCheck       = 200 * time.Millisecond
	shortLockInNode     = "3000"
	frequentCheckInNode = "200"
	longerThanASpec     = "60000" // milliseconds
)

func workUntilKilled() {
	worker, err := bullmq.NewWorker(context.Background(), os.Args[2], func(_ context.Context, job *bullmq.Job) (any, error) {
		fmt.Println(job.ID)
		time.Sleep(time.Minute) // longer than the spec that kills it
		return nil, nil
	}, &bullmq.WorkerOptions{
		URL: os.Args[1], LockDuration: shortLock, StalledInterval: frequentCheck, Name: "doomed",
		Registration: &bullmq.RegistrationOptions{Interval: 100 * time.Millisecond, Lease: shortLock},
	})
	if err == nil {
		err = worker.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startDoomedGoWorker starts a Go worker in a process, waits until it runs the job, and returns a function
// that kills it.
func startDoomedGoWorker(queue, jobID string) (kill func()) {
	GinkgoHelper()
	command := exec.Command(os.Args[0], server.URL(), queue)
	command.Env = append(os.Environ(), doomedVariable+"=1")
	out, theirOut, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(out.Close)
	command.Stdout, command.Stderr = theirOut, os.Stderr
	child, err := childprocess.Start(command)
	Expect(err).NotTo(HaveOccurred())
	Expect(theirOut.Close()).To(Succeed())
	DeferCleanup(child.Kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	Expect(line).To(Equal(jobID + "\n"))
	return child.Kill
}
