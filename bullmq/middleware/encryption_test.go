package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/middleware"
)

var _ = Describe("Encryption", func() {
	key := func(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }
	encryption := func(current string, keys map[string][]byte) *middleware.Encryption {
		GinkgoHelper()
		e, err := middleware.NewEncryption(current, keys)
		Expect(err).NotTo(HaveOccurred())
		return e
	}
	type order struct{ Total int }
	orders := bullmq.Define[order, int]("order")

	It("hides the data of a job in Redis from all but handlers with its key", func(ctx context.Context) {
		old := encryption("2025", map[string][]byte{"2025": key(1)})
		rotated := encryption("2026", map[string][]byte{"2025": key(1), "2026": key(2)})
		mux := bullmq.NewMux()
		mux.Use(rotated.Handle)
		bullmq.Handle(mux, orders, func(_ context.Context, _ *bullmq.Job, o order) (int, error) { return o.Total * 2, nil })
		plain := newQueue()
		for total, add := range []*middleware.Encryption{old, rotated} {
			queue := newQueue(add.Add)
			job, err := orders.Add(ctx, queue, order{Total: total + 20}, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.Data).NotTo(ContainSubstring("Total"))
			run(queue, mux.ServeJob, bullmq.WorkerOptions{})
			Expect(orders.Wait(ctx, queue, job.ID)).To(Equal((total + 20) * 2))
			done, err := queue.Job(ctx, job.ID)
			Expect(err).NotTo(HaveOccurred())
			Expect(done.Data).To(Equal(job.Data))
		}
		job, err := orders.Add(ctx, plain, order{Total: 1}, nil)
		Expect(err).NotTo(HaveOccurred())
		run(plain, mux.ServeJob, bullmq.WorkerOptions{})
		Expect(orders.Wait(ctx, plain, job.ID)).To(Equal(2))
	})

	DescribeTable("fails the attempt of a job", func(text string, change func(*bullmq.Job)) {
		e := encryption("k", map[string][]byte{"k": key(1)})
		n := &bullmq.NewJob{Name: "order", Data: order{Total: 1}}
		Expect(e.Add(func(context.Context, []*bullmq.NewJob) error { return nil })(context.Background(), []*bullmq.NewJob{n})).To(Succeed())
		data, err := n.EncodeData()
		Expect(err).NotTo(HaveOccurred())
		job := &bullmq.Job{ID: "7", Name: "order", Data: data}
		change(job)
		_, err = e.Handle(func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("the handler ran") })(context.Background(), job)
		Expect(err).To(MatchError(And(ContainSubstring("decrypt the data of job 7"), ContainSubstring(text))))
	},
		Entry("whose data was encrypted for another name", "message authentication failed", func(job *bullmq.Job) { job.Name = "refund" }),
		Entry("whose data was changed", "message authentication failed", func(job *bullmq.Job) {
			job.Data = bytes.Replace(job.Data, []byte(`"data":"`), []byte(`"data":"AAAA`), 1)
		}),
		Entry("whose key is missing", `key "other" is missing`, func(job *bullmq.Job) {
			job.Data = bytes.Replace(job.Data, []byte(`"kid":"k"`), []byte(`"kid":"other"`), 1)
		}),
		Entry("whose form is unknown", "its form 2 is unknown", func(job *bullmq.Job) {
			job.Data = bytes.Replace(job.Data, []byte(`"enc":1`), []byte(`"enc":2`), 1)
		}),
		Entry("whose nonce is cut", "its nonce has 0 bytes", func(job *bullmq.Job) {
			var fields map[string]any
			Expect(json.Unmarshal(job.Data, &fields)).To(Succeed())
			fields["iv"] = ""
			job.Data, _ = json.Marshal(fields)
		}),
	)

	It("is refused without its current key, or with a key of the wrong size", func() {
		_, err := middleware.NewEncryption("k", nil)
		Expect(err).To(MatchError(ContainSubstring(`there is no key "k"`)))
		_, err = middleware.NewEncryption("k", map[string][]byte{"k": []byte("short")})
		Expect(err).To(MatchError(ContainSubstring("16, 24 or 32 bytes")))
	})
})
