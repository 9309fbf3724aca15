package bullmq

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Tracing", func() {
	It("without a Telemetry allocates nothing and changes no contexts or options", func() {
		w := &queueWorker{core: &core{trace: tracer{queue: "orders"}}, host: &host{id: "worker", options: &WorkerOptions{}}}
		// The name does not fit into a buffer on the stack.
		t, job := w.core.trace, &Job{ID: "1", Name: strings.Repeat("paint", 20), Options: JobOptions{Telemetry: &JobTelemetry{Metadata: "{}"}}}
		ctx, options := context.Background(), JobOptions{Attempts: 3}
		adds := func() (err error) {
			inside, span := t.startAdd(ctx, job.Name)
			defer span.end(&err)
			options.carryAlone(t.inject(inside), nil)
			span.describe(job)
			return nil
		}
		runs := func() (err error) {
			inside, process := w.startProcess(ctx, job)
			defer w.endProcess(process, job)
			inside, span := w.startEnd(t.outliving(inside), job, complete)
			defer span.end(&err)
			w.measureEnd(inside, job, complete)
			process.completed(job, result{json: "null"})
			process.failed(job, result{err: errors.ErrUnsupported})
			return nil
		}
		renews := func() (err error) {
			_, span := t.start(ctx, SpanInternal, "extendLocks")
			defer span.end(&err)
			setAttr(span, attrWorkerRateLimit, int64(1)<<40)
			return nil
		}
		Expect(testing.AllocsPerRun(100, func() {
			if adds() != nil || runs() != nil || renews() != nil {
				panic("no error can come up")
			}
		})).To(BeZero())
		Expect(options).To(Equal(JobOptions{Attempts: 3}))
		inside, _ := w.startProcess(ctx, job)
		Expect(inside).To(BeIdenticalTo(ctx))
	})
})

var _ = Describe("The trace context in stored options", func() {
	DescribeTable("of a scheduler's next job",
		func(opts, stored string) {
			Expect(carryOn(opts, `{"traceparent":"x<y"}`)).To(MatchJSON(stored))
		},
		Entry("is added", `{"attempts":0}`, `{"attempts":0,"tm":"{\"traceparent\":\"x<y\"}"}`),
		Entry("is kept if there is one", `{"tm":"own","omc":true}`, `{"tm":"own","omc":true}`),
		Entry("is false if OmitContext is set", `{"omc":true}`, `{"omc":true,"tm":false}`),
		Entry("remains false", `{"omc":true,"tm":false}`, `{"omc":true,"tm":false}`),
		Entry("replaces an empty one", `{"tm":""}`, `{"tm":"{\"traceparent\":\"x<y\"}"}`),
	)
	It("is left unchanged if there is no context", func() {
		Expect(carryOn(`{ "attempts":0 }`, "")).To(Equal(`{ "attempts":0 }`))
	})
	It("does not change the caller's options", func() {
		own := &JobOptions{Telemetry: &JobTelemetry{OmitContext: true}, Extra: nil}
		o := *own
		o.carry("context", own)
		Expect(o.encode()).To(MatchJSON(`{"attempts":0,"omc":true,"tm":false}`))
		Expect(own.encode()).To(MatchJSON(`{"attempts":0,"omc":true}`))
	})
	It("follows the queue's defaults in Add but not in bulks and flows", func() {
		q := &Queue{defaults: JobOptions{Telemetry: &JobTelemetry{OmitContext: true}}}
		single, bulk := q.options(nil), q.options(nil)
		single.carryAlone("", nil)
		bulk.carry("", nil)
		Expect(single.encode()).To(MatchJSON(`{"attempts":0,"omc":true}`))
		Expect(bulk.encode()).To(MatchJSON(`{"attempts":0}`))
	})
})
