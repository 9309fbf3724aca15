package bullmq_test

import (
	"context"
	"time"

	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var producerTasks = []task{
	{"adds jobs to each state", func(p *program) {
		queue := p.queue(bullmq.Detect)
		parent := p.add(queue, bullmq.JobOptions{})
		p.Expect(p.add(queue, bullmq.JobOptions{JobID: "own"}).ID).To(Equal("own"))
		p.Expect(p.add(queue, bullmq.JobOptions{JobID: "own"}).ID).To(Equal("own"))
		p.add(queue, bullmq.JobOptions{LIFO: true})
		p.add(queue, bullmq.JobOptions{Delay: time.Hour})
		p.add(queue, bullmq.JobOptions{Priority: 5})
		p.add(queue, bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: parent.ID, QueueKey: "bull:" + p.name}})
		p.Expect(p.others.queue.Counts(p.ctx, bullmq.StateWaiting, bullmq.StateDelayed, bullmq.StatePrioritized)).To(Equal(map[bullmq.State]int{
			bullmq.StateWaiting: 4, bullmq.StateDelayed: 1, bullmq.StatePrioritized: 1,
		}))
	}},

	{"adds jobs in bulk", func(p *program) {
		queue := p.queue(bullmq.Detect)
		p.Expect(queue.AddBulk(p.ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b"}, {Name: "c", Options: &bullmq.JobOptions{Priority: 1}}})).To(HaveLen(3))
	}},

	{"adds jobs with deduplication ids that other jobs own", func(p *program) {
		queue := p.queue(bullmq.Detect)
		for _, d := range []bullmq.Deduplication{
			{ID: "simple"}, {ID: "throttle", TTL: time.Hour}, {ID: "extend", TTL: time.Hour, Extend: true}, {ID: "replace", Replace: true},
			{ID: "reschedule", Reschedule: true}, {ID: "both", TTL: time.Hour, Replace: true},
		} {
			owner := p.add(queue, bullmq.JobOptions{Deduplication: &d, Delay: time.Hour})
			other := p.add(queue, bullmq.JobOptions{Deduplication: &d, Delay: time.Minute})
			p.Expect(other.ID == owner.ID).To(Equal(!d.Replace), d.ID)
		}
	}},

	{"adds a job with the deduplication id of a running job, which it follows", func(p *program) {
		queue := p.queue(bullmq.Detect)
		d := bullmq.Deduplication{ID: "last", KeepLastIfActive: true}
		owner := p.add(queue, bullmq.JobOptions{Deduplication: &d, Delay: time.Hour})
		p.others.do("LPUSH", p.others.key("active"), owner.ID)
		p.Expect(p.add(queue, bullmq.JobOptions{Deduplication: &d, Delay: time.Minute}).ID).To(Equal(owner.ID))
	}},

	{"adds a job with the deduplication id of a job whose hash is gone", func(p *program) {
		queue := p.queue(bullmq.Detect)
		d := bullmq.Deduplication{ID: "simple"}
		owner := p.add(queue, bullmq.JobOptions{Deduplication: &d, Delay: time.Hour})
		p.others.do("DEL", p.others.key(owner.ID))
		p.add(queue, bullmq.JobOptions{Deduplication: &d})
	}},

	{"adds a flow whose child has completed already, twice", func(p *program) {
		producer := p.flows()
		p.others.do("ZADD", p.others.key("completed"), "1", "done")
		p.others.do("HSET", p.others.key("done"), "name", "a", "returnvalue", "1")
		for range 2 {
			root, err := producer.Add(p.ctx, bullmq.Flow{Name: "top", QueueName: p.name, Options: &bullmq.JobOptions{JobID: "top"}, Children: []bullmq.Flow{
				{Name: "below", QueueName: p.name, Options: &bullmq.JobOptions{JobID: "done"}},
			}})
			p.Expect(err).NotTo(HaveOccurred())
			p.Expect(root.Job.ID).To(Equal("top"))
		}
	}},

	{"adds a scheduler and changes its interval and its kind", func(p *program) {
		queue := p.queue(bullmq.Detect)
		for _, r := range []bullmq.Repeat{{Every: time.Hour}, {Pattern: "0 0 * * *"}, {Every: time.Minute}} {
			p.Expect(queue.UpsertScheduler(p.ctx, "s", r, nil)).NotTo(BeNil())
		}
	}},

	{"publishes an event", func(p *program) {
		queue := p.queue(bullmq.Detect)
		p.Expect(queue.Publish(p.ctx, "mine", &bullmq.PublishOptions{MaxEvents: 10}, "a", "b")).NotTo(BeEmpty())
	}},

	{"adds a job to a queue that BullMQ 5 has paused", func(p *program) {
		p.others.do("HSET", p.others.key("meta"), "paused", "1")
		queue := p.queue(bullmq.V5)
		p.Expect(p.add(queue, bullmq.JobOptions{JobID: "of-5"}).ID).To(Equal("of-5"))
	}},

	{"waits for jobs that have ended already", func(p *program) {
		queue := p.queue(bullmq.Detect)
		for _, state := range []string{"completed", "failed"} {
			p.others.do("ZADD", p.others.key(state), "1", "has-"+state)
			p.others.do("HSET", p.others.key("has-"+state), "name", "a", "returnvalue", "1", "failedReason", "why")
		}
		p.Expect(queue.WaitForJob(p.ctx, "has-completed")).Error().NotTo(HaveOccurred())
		_, err := queue.WaitForJob(p.ctx, "has-failed")
		p.Expect(err).To(BeAssignableToTypeOf(&bullmq.JobFailedError{}))
	}},

	{"waits for a job that has ended and is gone", func(p *program) {
		queue := p.queue(bullmq.Detect)
		p.others.publish("completed", "gone", "returnvalue", "1")
		p.Expect(queue.WaitForJob(p.ctx, "gone")).Error().NotTo(HaveOccurred())
	}},

	{"waits for a job that ends meanwhile", func(p *program) {
		queue := p.queue(bullmq.Detect)
		job := p.add(queue, bullmq.JobOptions{})
		ctx, cancel := context.WithTimeout(p.ctx, 15*time.Second)
		defer cancel()
		waited := make(chan error, 1)
		go func() { _, err := queue.WaitForJob(ctx, job.ID); waited <- err }()
		var err error
		p.Eventually(func() <-chan error { // the wait begins some time after the call
			p.others.publish("completed", job.ID, "returnvalue", "1")
			return waited
		}, "20s", "20ms").Should(Receive(&err))
		p.Expect(err).NotTo(HaveOccurred())
	}},
}

// add adds a job that the program must be allowed to add.
func (p *program) add(queue *bullmq.Queue, options bullmq.JobOptions) *bullmq.Job {
	job, err := queue.Add(p.ctx, "paint", 1, &options)
	p.Expect(err).NotTo(HaveOccurred(), "adding a job with %+v", options)
	return job
}
