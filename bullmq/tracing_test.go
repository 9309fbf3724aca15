package bullmq

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Without a Telemetry", func() {
	It("tracing allocates nothing and leaves contexts and options as they are", func() {
		w := &Worker{core: &core{trace: tracer{queue: "orders"}}, id: "worker"}
		// A name that doesn't fit into a buffer on the stack.
		t, job := w.core.trace, &Job{ID: "1", Name: strings.Repeat("paint", 20), Opts: JobOptions{Telemetry: &JobTelemetry{Metadata: "{}"}}}
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
			set(span, attrWorkerRateLimit, int64(1)<<40)
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

var _ = Describe("The context in stored options", func() {
	DescribeTable("of a scheduler's next job",
		func(opts, stored string) {
			Expect(carryOn(opts, `{"traceparent":"x<y"}`)).To(MatchJSON(stored))
		},
		Entry("is put in", `{"attempts":0}`, `{"attempts":0,"tm":"{\"traceparent\":\"x<y\"}"}`),
		Entry("stays where there is one", `{"tm":"own","omc":true}`, `{"tm":"own","omc":true}`),
		Entry("is false where it is left out", `{"omc":true}`, `{"omc":true,"tm":false}`),
		Entry("stays false", `{"omc":true,"tm":false}`, `{"omc":true,"tm":false}`),
		Entry("takes the place of an empty one", `{"tm":""}`, `{"tm":"{\"traceparent\":\"x<y\"}"}`),
	)
	It("is left as it is where there is nothing to carry", func() {
		Expect(carryOn(`{ "attempts":0 }`, "")).To(Equal(`{ "attempts":0 }`))
	})
	It("leaves the caller's options alone", func() {
		own := &JobOptions{Telemetry: &JobTelemetry{OmitContext: true}, Extra: nil}
		o := *own
		o.carry("context", own)
		Expect(o.encode()).To(MatchJSON(`{"attempts":0,"omc":true,"tm":false}`))
		Expect(own.encode()).To(MatchJSON(`{"attempts":0,"omc":true}`))
	})
	It("of a queue's defaults holds for Add, and not for bulks and flows", func() {
		q := &Queue{defaults: JobOptions{Telemetry: &JobTelemetry{OmitContext: true}}}
		single, bulk := q.options(nil), q.options(nil)
		single.carryAlone("", nil)
		bulk.carry("", nil)
		Expect(single.encode()).To(MatchJSON(`{"attempts":0,"omc":true}`))
		Expect(bulk.encode()).To(MatchJSON(`{"attempts":0}`))
	})
})
