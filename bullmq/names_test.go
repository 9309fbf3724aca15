package bullmq_test

import (
	"context"
	"errors"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// interop/scenarios/25-names.json compares how both libraries treat unusual names.
var _ = Describe("A name", Label("slow"), func() {
	const megabyte = 1 << 20
	noText := "a\xff"

	// attempts store something under a name.
	attempts := map[string]func(queue *bullmq.Queue, name string) error{
		"a queue": func(_ *bullmq.Queue, name string) error {
			queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: connection()})
			if err == nil {
				err = errors.Join(queue.Obliterate(specContext(), nil), queue.Close())
			}
			return err
		},
		"a prefix": func(_ *bullmq.Queue, name string) error {
			queue, err := bullmq.NewQueue(context.Background(), "q", &bullmq.QueueOptions{Connection: connection(), Prefix: name})
			if err == nil {
				err = errors.Join(queue.Obliterate(specContext(), nil), queue.Close())
			}
			return err
		},
		"a job": func(queue *bullmq.Queue, name string) error {
			_, err := queue.Add(specContext(), name, nil, nil)
			return err
		},
		"a job of a bulk": func(queue *bullmq.Queue, name string) error {
			_, err := queue.AddBulk(specContext(), []bullmq.BulkJob{{Name: "first"}, {Name: name}})
			return err
		},
		"a job's id": func(queue *bullmq.Queue, name string) error {
			_, err := queue.Add(specContext(), "paint", nil, &bullmq.JobOptions{JobID: name})
			return err
		},
		"a deduplication id": func(queue *bullmq.Queue, name string) error {
			_, err := queue.Add(specContext(), "paint", nil, &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: name}})
			return err
		},
		"a scheduler": func(queue *bullmq.Queue, name string) error {
			_, err := queue.UpsertScheduler(specContext(), name, bullmq.Repeat{Every: time.Hour}, nil)
			return err
		},
		"a scheduler's jobs": func(queue *bullmq.Queue, name string) error {
			_, err := queue.UpsertScheduler(specContext(), "s", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: name})
			return err
		},
		"a worker": func(queue *bullmq.Queue, name string) error {
			worker, err := bullmq.NewWorker(context.Background(), queue.Name(), doNothing, &bullmq.WorkerOptions{Connection: connection(), Name: name})
			if err == nil {
				err = worker.Close()
			}
			return err
		},
	}
	parent := func(queue *bullmq.Queue, name string) error {
		_, err := queue.Add(specContext(), "paint", nil, &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: name, QueueKey: "bull:" + queue.Name()}})
		return err
	}

	refused := func(what string, attempt func(*bullmq.Queue, string) error, name string, says string) {
		GinkgoHelper()
		queue := newQueue(newQueueName(), nil)
		size := func() int64 { n, err := redisDo("DBSIZE").AsInt64(); Expect(err).NotTo(HaveOccurred()); return n }
		keys, before := size(), snapshot(queue.Name())
		err := attempt(queue, name)
		Expect(err).To(MatchError(ContainSubstring(says)), what)
		Expect(len(err.Error())).To(BeNumerically("<", 1000), what)
		Expect(snapshot(queue.Name())).To(Equal(before), what)
		Expect(size()).To(BeNumerically("<=", keys), what) // keys of other specs may expire meanwhile
	}

	It("is refused, and nothing is written, if it is not valid UTF-8, which Node could not name", func() {
		for what, attempt := range attempts {
			refused(what, attempt, noText, "UTF-8")
			refused(what, attempt, strings.Repeat("x", megabyte)+noText, "UTF-8")
		}
		refused("a parent", parent, noText, "UTF-8")
	})

	DescribeTable("is refused, and nothing is written, if it is ambiguous:", func(what, name, says string) {
		refused(what, attempts[what], name, says)
	},
		Entry("an empty queue name", "a queue", "", "needs a name"),
		Entry("a queue name with a colon", "a queue", "a:b", "colon"),
		Entry("a very long queue name with a colon", "a queue", strings.Repeat("x", megabyte)+":", "colon"),
		Entry("a job id that is a list of the queue", "a job's id", "wait", "key of that name"),
		Entry("a very long job id with a colon", "a job's id", strings.Repeat("x", megabyte)+":", "colons"),
		Entry("an empty scheduler id", "a scheduler", "", "needs an id"),
		Entry("an empty deduplication id", "a deduplication id", "", "Deduplication.ID is empty"),
	)

	DescribeTable("works for every purpose, even if long or full of special characters:", func(name string) {
		for what, attempt := range attempts {
			queue := newQueue(newQueueName(), nil)
			Expect(attempt(queue, name)).To(Succeed(), what)
		}
		queue := newQueue(newQueueName(), nil)
		job, err := queue.Add(specContext(), name, name, &bullmq.JobOptions{JobID: name, Deduplication: &bullmq.Deduplication{ID: name}})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal(name))
		family := newQueue(newQueueName(), nil)
		Expect(attempts["a job's id"](family, name)).To(Succeed())
		Expect(parent(family, name)).To(Succeed())
		runWorker(queue.Name(), func(_ context.Context, job *bullmq.Job) (any, error) { return job.Name, nil }, &bullmq.WorkerOptions{Name: name})
		Eventually(stateOf(queue, name), "40s").Should(Equal(bullmq.StateCompleted))
		read, err := queue.Job(specContext(), name)
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Name).To(Equal(name))
		Expect(read.ProcessedBy).To(Equal(name))
		Expect(queue.DeduplicationJobID(specContext(), name)).Error().To(MatchError(bullmq.ErrDeduplicationNotFound))
		Expect(queue.Remove(specContext(), name, nil)).To(Succeed())
		Expect(queue.FindStrandedJobs(specContext())).To(BeEmpty())
	},
		Entry("a megabyte", strings.Repeat("x", megabyte)),
		Entry("a pattern", `[a-z]*?\*`),
		Entry("line ends, quotes and zero bytes", "a\x00b\r\nc\"d'e`f"),
		Entry("braces", "{a}{b}"),
		Entry("spaces", " a b "),
		Entry("format verbs", "%s%!v%00"),
	)

	It("of a queue that is a pattern addresses only its own keys", func() {
		beside := newQueueName()
		neighbour := newQueue(beside, nil)
		Expect(redisDo("HSET", keyOf(beside, "orphan"), "name", "a").Error()).To(Succeed())
		queue := newQueue(strings.Replace(beside, "queue", "q*e", 1), nil)
		Expect(redisDo("HSET", keyOf(queue.Name(), "orphan"), "name", "a").Error()).To(Succeed())
		Expect(queue.RemoveOrphanedJobs(specContext(), nil)).To(Equal([]string{"orphan"}))
		Expect(neighbour.FindOrphanedJobs(specContext())).To(Equal([]string{"orphan"}))
		Expect(queue.Obliterate(specContext(), nil)).To(Succeed())
		Expect(neighbour.Meta(specContext())).To(HaveField("MaxEvents", 10000))
	})
})
