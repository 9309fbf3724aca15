package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// big returns a JSON string of the given size that is unique to the job.
func big(job, size int) json.RawMessage {
	text := bytes.Repeat([]byte{byte('a' + job%26)}, size)
	copy(text, fmt.Sprintf(`"%d `, job))
	text[size-1] = '"'
	return text
}

var _ = DescribeTable("Large data arrives unchanged in the handler and in the result", func(jobs, size int) {
	inShortFormIf(jobs*size <= 5_000_000)
	server, err := redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	site, ctx := at(server), within(3*time.Minute)
	queue, err := bullmq.NewQueue(ctx, "large", &bullmq.QueueOptions{Connection: connect(site)})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	var runs atomic.Int64
	worker, err := bullmq.NewWorker(ctx, "large", func(_ context.Context, job *bullmq.Job) (any, error) {
		runs.Add(1)
		var n int
		if _, err := fmt.Sscanf(job.Name, "job %d", &n); err != nil || !bytes.Equal(job.Data, big(n, size)) {
			return nil, bullmq.Unrecoverable(errors.New("the data differs from the data that was added"))
		}
		return job.Data, nil
	}, &bullmq.WorkerOptions{Connection: connect(site), Concurrency: 50})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(worker.Close)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()

	bulk := make([]bullmq.BulkJob, jobs)
	for i := range bulk {
		bulk[i] = bullmq.BulkJob{Name: fmt.Sprint("job ", i), Data: big(i, size)}
	}
	added, err := queue.AddBulk(ctx, bulk)
	Expect(err).NotTo(HaveOccurred())
	for i, job := range added {
		result, err := job.Wait(ctx, queue)
		Expect(err).NotTo(HaveOccurred())
		Expect(bytes.Equal(result, big(i, size))).To(BeTrue(), "the result of job %d", i)
	}
	Expect(worker.Close()).To(Succeed())
	Expect(<-ended).To(Succeed())
	Expect(runs.Load()).To(BeEquivalentTo(jobs))
},
	Entry("of 10 jobs with 500 kB each", 10, 500_000),
	Entry("of 200 jobs with 500 kB each", 200, 500_000),
	Entry("of a job with 30 MB", 1, 30_000_000),
	Entry("of a job with 120 MB", 1, 120_000_000),
)
