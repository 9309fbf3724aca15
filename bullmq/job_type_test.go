package bullmq_test

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

type email struct {
	To    string `json:"to"`
	Items []item `json:"items,omitempty"`
}

type item struct {
	Price int `json:"price"`
}

type receipt struct {
	ID string `json:"id"`
}

var _ = Describe("A job type", func() {
	welcome := bullmq.Define[email, receipt]("welcome", bullmq.JobOptions{Attempts: 3, Priority: 2})

	It("adds jobs with its name, typed data and default options", func() {
		queue := newQueue(newQueueName(), &bullmq.QueueOptions{DefaultJobOptions: &bullmq.JobOptions{Attempts: 9, KeepLogs: 5}})
		job, err := welcome.Add(specContext(), queue, email{To: "ada@example.org"}, &bullmq.JobOptions{Priority: 7})
		Expect(err).NotTo(HaveOccurred())
		stored, err := queue.Job(specContext(), job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Name).To(Equal("welcome"))
		Expect(stored.Data).To(MatchJSON(`{"to":"ada@example.org"}`))
		Expect(stored.Options.Attempts).To(Equal(3))
		Expect(stored.Options.Priority).To(Equal(7))
		Expect(stored.Options.KeepLogs).To(Equal(5))
		Expect(welcome.Data(stored)).To(Equal(email{To: "ada@example.org"}))
	})

	It("adds jobs in bulk, in flows and by schedulers", func() {
		queue := newQueue(newQueueName(), nil)
		jobs, err := queue.AddBulk(specContext(), []bullmq.BulkJob{
			welcome.Bulk(email{To: "a"}, nil), welcome.Bulk(email{To: "b"}, &bullmq.JobOptions{Attempts: 1}),
		})
		Expect(err).NotTo(HaveOccurred())
		Expect([]int{jobs[0].Options.Attempts, jobs[1].Options.Attempts}).To(Equal([]int{3, 1}))

		flows, err := bullmq.NewFlowProducer(specContext(), &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		flow, err := flows.Add(specContext(), welcome.Flow(queue.Name(), email{To: "c"}, nil, welcome.Flow(queue.Name(), email{To: "d"}, nil)))
		Expect(err).NotTo(HaveOccurred())
		Expect(flow.Job.Name).To(Equal("welcome"))
		Expect(flow.Children[0].Job.Data).To(MatchJSON(`{"to":"d"}`))

		template := welcome.Template(email{To: "e"}, nil)
		job, err := queue.UpsertScheduler(specContext(), "nightly", bullmq.Repeat{Every: time.Hour}, &template)
		Expect(err).NotTo(HaveOccurred())
		Expect(welcome.Data(job)).To(Equal(email{To: "e"}))
		job, err = welcome.Schedule(specContext(), queue, "nightly", bullmq.Repeat{Every: 2 * time.Hour}, email{To: "f"}, &bullmq.JobOptions{Priority: 3})
		Expect(err).NotTo(HaveOccurred())
		Expect(welcome.Data(job)).To(Equal(email{To: "f"}))
		Expect(job).To(And(HaveField("Name", "welcome"), HaveField("SchedulerID", "nightly"), HaveField("Options.Priority", 3)))
		scheduler, err := queue.Scheduler(specContext(), "nightly")
		Expect(err).NotTo(HaveOccurred())
		Expect(scheduler.Repeat.Every).To(Equal(2 * time.Hour))
	})

	It("waits for the typed result of a job", func() {
		name := newQueueName()
		queue := newQueue(name, nil)
		mux := bullmq.NewMux()
		bullmq.Handle(mux, welcome, func(_ context.Context, _ *bullmq.Job, data email) (receipt, error) {
			return receipt{ID: "for " + data.To}, nil
		})
		runWorker(name, mux.ServeJob, nil)
		job, err := welcome.Add(specContext(), queue, email{To: "ada"}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(welcome.Wait(specContext(), queue, job.ID)).To(Equal(receipt{ID: "for ada"}))
		done, err := queue.Job(specContext(), job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(welcome.Result(done)).To(Equal(receipt{ID: "for ada"}))
	})

	DescribeTable("names the place in data that does not fit:", func(data, place string) {
		_, err := welcome.Data(&bullmq.Job{ID: "1", Name: "welcome", Data: json.RawMessage(data)})
		Expect(err).To(MatchError(And(ContainSubstring("job 1 (welcome)"), HaveSuffix(place))))
	},
		Entry("a member", `{"x":[1,{"to":2}],"to":7}`, " at $.to"),
		Entry("an element of a list", `{"to":"a","items":[{"price":1},{"price":"2"}]}`, " at $.items[1].price"),
		Entry("an object in place of a number", `{"items":[{"price":1},{"other":[]},{"price":{"eur":1}}]}`, " at $.items[2].price"),
		Entry("a list in place of an object", `{"items":[[1]]}`, " at $.items[0]"),
		Entry("the whole data", `"text"`, " at $"),
		Entry("text that is no JSON", `{"to":`, "unexpected EOF"),
	)

	It("is refused without a name or with invalid options", func() {
		Expect(func() { bullmq.Define[email, receipt]("") }).To(PanicWith(ContainSubstring("the name is empty")))
		Expect(func() { bullmq.Define[email, receipt]("a", bullmq.JobOptions{Attempts: -1}) }).To(PanicWith(ContainSubstring("define job type a")))
		Expect(func() { bullmq.Define[email, receipt]("a", bullmq.JobOptions{}, bullmq.JobOptions{}) }).To(PanicWith(ContainSubstring("at most one")))
	})
})
