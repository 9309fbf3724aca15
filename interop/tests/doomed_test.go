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

// doomedVariable turns the test binary into a Go worker that waits to be
// killed; its arguments are then the address of Redis and the queue.
const doomedVariable = "INTEROP_DOOMED_WORKER"

// Workers that are to stall hold their locks this briefly, and all that look
// for stalled jobs look this often: the longest interval of all holds for all.
const (
	shortLock       = 500 * time.Millisecond
	oftenLook       = 200 * time.Millisecond
	shortLockInNode = "500"
	oftenLookInNode = "200"
	longerThanASpec = "60000" // ms
)

func workUntilKilled() {
	worker, err := bullmq.NewWorker(context.Background(), os.Args[2], func(_ context.Context, job *bullmq.Job) (any, error) {
		fmt.Println(job.ID)
		time.Sleep(time.Minute) // longer than the spec that kills it
		return nil, nil
	}, &bullmq.WorkerOptions{Connection: bullmq.URL(os.Args[1]), LockDuration: shortLock, StalledInterval: oftenLook, Name: "doomed"})
	if err == nil {
		err = worker.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startDoomedGoWorker runs a Go worker in a process of its own, waits until it
// runs the job, and answers what kills it.
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
