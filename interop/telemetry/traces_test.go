package telemetry_test

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/interop/nodeprobe"
)

// elsewhere is the trace context of a remote request, as a carrier transports it.
var elsewhere = map[string]string{
	"traceparent": "00-" + elsewhereTrace + "-" + elsewhereSpan + "-01",
	"tracestate":  "rojo=00f067aa0ba902b7,congo=t61/x",
	"baggage":     "user=ada", // only one entry: OpenTelemetry for Go does not keep their order
}

const (
	elsewhereTrace = "0af7651916cd43dd8448eb211c80319c"
	elsewhereSpan  = "b7ad6b7169203331"
)

var _ = Describe("Telemetry", Ordered, ContinueOnFailure, func() {
	var (
		tracedNode *nodeprobe.Probe // with bullmq-otel
		traced     *goTelemetry
		name       string
		queue      *bullmq.Queue
	)
	BeforeAll(func() { tracedNode = startProbe("-telemetry") })
	BeforeEach(func() {
		traced, name = newGoTelemetry(), newQueueName()
		queue = tracedQueue(name, traced)
		spansOf(tracedNode) // those of specs before this one
	})
	// Some specs need one queue per library, so that each runs the other's job.
	anotherQueue := func() (string, *bullmq.Queue) {
		GinkgoHelper()
		name := newQueueName()
		return name, tracedQueue(name, traced)
	}
	// inNode performs an operation in Node within the remote context.
	inNode := func(op string, args object, into any) {
		GinkgoHelper()
		tracedNode.Do("within", object{"carrier": elsewhere, "op": op, "args": args}, into)
	}
	addInNode := func(name string, opts object) string {
		GinkgoHelper()
		var job struct{ ID string }
		inNode("add", object{"queue": name, "name": "paint", "data": object{}, "opts": opts}, &job)
		return job.ID
	}
	addInGo := func(queue *bullmq.Queue, options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(traced.within(elsewhere), "paint", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	// runInGo runs count attempts in Go.
	runInGo := func(name string, count int, handler bullmq.Handler) {
		GinkgoHelper()
		ended := make(chan struct{}, 10)
		stop := runGoWorker(name, handler, bullmq.WorkerOptions{Telemetry: traced, SkipStalledCheck: true, Events: bullmq.WorkerEvents{
			Completed: func(*bullmq.Job, any) { ended <- struct{}{} },
			Failed:    func(*bullmq.Job, error) { ended <- struct{}{} },
		}})
		for range count {
			Eventually(ended).Should(Receive())
		}
		stop()
	}

	It("continues in Go the trace that began in Node", func() {
		id := addInNode(name, object{})
		add := the(spansOf(tracedNode), "add "+name+".paint")
		Expect(add.TraceID).To(Equal(elsewhereTrace))
		Expect(add.Parent).To(Equal(elsewhereSpan))

		var ofHandler trace.SpanContext
		var user string
		runInGo(name, 1, func(ctx context.Context, job *bullmq.Job) (any, error) {
			Expect(job.ID).To(Equal(id))
			ofHandler, user = trace.SpanContextFromContext(ctx), baggage.FromContext(ctx).Member("user").Value()
			return nil, nil
		})
		spans := traced.spans()
		process := the(spans, "process "+name)
		Expect(process.TraceID).To(Equal(elsewhereTrace))
		Expect(process.Parent).To(Equal(add.SpanID))
		Expect(process.Kind).To(Equal("consumer"))
		Expect(the(spans, "complete "+name).Parent).To(Equal(process.SpanID))
		// The handler's context contains the span and the remote baggage.
		Expect(ofHandler.SpanID().String()).To(Equal(process.SpanID))
		Expect(ofHandler.TraceState().Get("rojo")).To(Equal("00f067aa0ba902b7"))
		Expect(user).To(Equal("ada"))
	})

	It("continues in Node the trace that began in Go", func() {
		addInGo(queue, nil)
		add := the(traced.spans(), "add "+name+".paint")
		Expect(add.TraceID).To(Equal(elsewhereTrace))
		Expect(add.Parent).To(Equal(elsewhereSpan))
		Expect(add.Kind).To(Equal("producer"))

		tracedNode.Run(name, 1, object{}, object{})(nil)
		process := the(spansOf(tracedNode), "process "+name)
		Expect(process.TraceID).To(Equal(elsewhereTrace))
		Expect(process.Parent).To(Equal(add.SpanID))
	})

	It("stores the same text for a context as Node, except for the span id", func() {
		ours, queueOfOurs := anotherQueue()
		byNode, byGo := addInNode(name, object{}), addInGo(queueOfOurs, nil)
		nodeSpan := the(spansOf(tracedNode), "add "+name+".paint").SpanID
		goSpan := the(traced.spans(), "add "+ours+".paint").SpanID
		ofNode, ofGo := readJob(queue, byNode).Options.Telemetry.Metadata, readJob(queueOfOurs, byGo.ID).Options.Telemetry.Metadata
		Expect(ofGo).To(Equal(strings.ReplaceAll(ofNode, nodeSpan, goSpan)))
		Expect(ofGo).To(Equal(`{"traceparent":"00-` + elsewhereTrace + "-" + goSpan + `-01","tracestate":"rojo=00f067aa0ba902b7,congo=t61/x","baggage":"user=ada"}`))
		Expect(stored(ours, byGo.ID, "opts")).To(MatchJSON(strings.ReplaceAll(stored(name, byNode, "opts"), nodeSpan, goSpan)))
		Expect(byGo.Options.Telemetry.Metadata).To(Equal(ofGo), "the job returned by Add contains it too")

		// A failed attempt leaves the hash's field tm.
		runInGo(name, 1, failing("boom"))
		fail := the(traced.spans(), "fail "+name)
		Expect(stored(name, byNode, "tm")).To(Equal(strings.ReplaceAll(ofNode, nodeSpan, fail.SpanID)))
		tracedNode.Run(ours, 1, object{"throw": "boom"}, object{})(nil)
		fail = the(spansOf(tracedNode), "fail "+ours)
		Expect(stored(ours, byGo.ID, "tm")).To(Equal(strings.ReplaceAll(ofNode, nodeSpan, fail.SpanID)))
	})

	It("keeps the trace through a job's retries, whichever library runs the attempts", func() {
		id := addInNode(name, object{"attempts": 4, "backoff": object{"type": "fixed", "delay": 3600000}})
		add := the(spansOf(tracedNode), "add "+name+".paint")
		runInGo(name, 1, failing("boom"))
		Expect(queue.JobRef(id).Promote(soon())).To(Succeed())
		tracedNode.Run(name, 1, object{"throw": "boom"}, object{})(nil)
		Expect(queue.JobRef(id).Promote(soon())).To(Succeed())
		runInGo(name, 1, returning(nil))
		spans := append(traced.spans(), spansOf(tracedNode)...)
		delays := all(spans, "delay "+name)
		Expect(delays).To(HaveLen(2))
		Expect(delays).To(ContainElement(HaveField("SpanID", tracedSpan(stored(name, id, "tm")))))
		for _, delay := range delays {
			Expect(delay.TraceID).To(Equal(elsewhereTrace))
		}
		Expect(all(spans, "process "+name)).To(HaveLen(3))
		for _, process := range all(spans, "process "+name) {
			Expect(process.TraceID).To(Equal(elsewhereTrace))
			Expect(process.Parent).To(Equal(add.SpanID))
		}
	})

	It("propagates nothing in either library if omitContext is set", func() {
		ours, queueOfOurs := anotherQueue()
		byNode := addInNode(name, object{"telemetry": object{"omitContext": true}})
		byGo := addInGo(queueOfOurs, &bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{OmitContext: true}})
		for queue, id := range map[string]string{name: byNode, ours: byGo.ID} {
			Expect(stored(queue, id, "opts")).To(MatchJSON(`{"attempts":0,"omc":true}`))
		}
		runInGo(name, 1, failing("boom"))
		tracedNode.Run(ours, 1, object{"throw": "boom"}, object{})(nil)
		for queue, spans := range map[string][]endedSpan{name: traced.spans(), ours: spansOf(tracedNode)} {
			process := the(spans, "process "+queue)
			Expect(process.Parent).To(BeEmpty())
			Expect(process.TraceID).NotTo(Equal(elsewhereTrace))
			Expect(stored(queue, "1", "tm")).To(Equal(missing))
		}
	})

	DescribeTable("propagates the context with bulk jobs as Node does",
		func(opts object, options *bullmq.JobOptions) {
			specs := []object{{"name": "a", "data": object{}}, {"name": "b", "data": object{}, "opts": opts}}
			var ofNode []struct{ ID string }
			inNode("addBulk", object{"queue": name, "jobs": specs}, &ofNode)
			ofGo, err := queue.AddBulk(traced.within(elsewhere), []bullmq.BulkJob{{Name: "a"}, {Name: "b", Options: options}})
			Expect(err).NotTo(HaveOccurred())
			nodeSpan, goSpan := the(spansOf(tracedNode), "addBulk "+name).SpanID, the(traced.spans(), "addBulk "+name).SpanID
			for i, job := range ofGo {
				Expect(stored(name, job.ID, "opts")).To(MatchJSON(strings.ReplaceAll(stored(name, ofNode[i].ID, "opts"), nodeSpan, goSpan)))
			}
			runInGo(name, 4, returning(nil))
			plain := slices.DeleteFunc(all(traced.spans(), "process "+name), func(s endedSpan) bool { return s.Attributes["bullmq.job.name"] != "a" })
			Expect(parents(plain)).To(ConsistOf(nodeSpan, goSpan))
		},
		Entry("without telemetry options", object{}, &bullmq.JobOptions{}),
		Entry("with omitContext", object{"telemetry": object{"omitContext": true}}, &bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{OmitContext: true}}),
		Entry("with their own context", object{"telemetry": object{"metadata": "own"}}, &bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{Metadata: "own"}}),
		Entry("with their own context and omitContext", object{"telemetry": object{"metadata": "own", "omitContext": true}},
			&bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{Metadata: "own", OmitContext: true}}),
	)

	It("propagates the context to the children of a flow, each with its own span", func() {
		child := func(name string, opts object) object {
			return object{"name": name, "queueName": name, "data": object{}, "opts": opts}
		}
		kid, plain, alone := name+"-kid", name+"-plain", name+"-alone"
		tree := child(name, object{})
		tree["children"] = []object{child(kid, object{}), child(alone, object{"telemetry": object{"omitContext": true}}),
			{"name": plain, "queueName": plain, "data": object{}}}
		inNode("addFlow", object{"flow": tree}, nil)
		ofNode := spansOf(tracedNode)

		flows, err := bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{URL: server.URL(), Telemetry: traced})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		root, err := flows.Add(traced.within(elsewhere), bullmq.Flow{Name: name, QueueName: name, Options: &bullmq.JobOptions{}, Children: []bullmq.Flow{
			{Name: kid, QueueName: kid, Options: &bullmq.JobOptions{}},
			{Name: alone, QueueName: alone, Options: &bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{OmitContext: true}}},
			{Name: plain, QueueName: plain},
		}})
		Expect(err).NotTo(HaveOccurred())
		ofGo := traced.spans()

		for _, node := range append(root.Children, root) {
			queue := node.Job.QueueName()
			nodeSpan, goSpan := the(ofNode, "addNode "+queue), the(ofGo, "addNode "+queue)
			Expect(goSpan.TraceID).To(Equal(elsewhereTrace))
			other := otherJob(queue, node.Job.ID)
			withIDs := strings.NewReplacer(nodeSpan.SpanID, goSpan.SpanID)
			if queue != name { // children contain their parent
				withIDs = strings.NewReplacer(nodeSpan.SpanID, goSpan.SpanID, otherJob(name, root.Job.ID), root.Job.ID)
			}
			Expect(stored(queue, node.Job.ID, "opts")).To(MatchJSON(withIDs.Replace(stored(queue, other, "opts"))), queue)
		}
		Expect(stored(plain, root.Children[2].Job.ID, "opts")).NotTo(ContainSubstring("traceparent"), "without options Node propagates nothing either")
		runInGo(kid, 2, returning(nil))
		Expect(parents(all(traced.spans(), "process "+kid))).To(ConsistOf(the(ofNode, "addNode "+kid).SpanID, the(ofGo, "addNode "+kid).SpanID))
	})

	It("gives all jobs of a scheduler the context of its upsert, in both libraries", func() {
		inNode("upsertScheduler", object{"queue": name, "id": "tick", "repeat": object{"every": 50}, "template": object{"name": "paint"}}, nil)
		upsert := the(spansOf(tracedNode), "add "+name+".paint")
		runInGo(name, 2, returning(nil))
		tracedNode.Run(name, 1, object{}, object{})(nil)
		spans := append(traced.spans(), spansOf(tracedNode)...)
		Expect(len(all(spans, "process "+name))).To(BeNumerically(">=", 3))
		for _, process := range all(spans, "process "+name) {
			Expect(process.Parent).To(Equal(upsert.SpanID))
		}
		Expect(all(spans, "add "+name+".paint")).NotTo(BeEmpty(), "a worker adds the next job")
		_, err := queue.UpsertScheduler(traced.within(elsewhere), "tock", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		tock := the(traced.spans(), "add "+name+".tock")
		Expect(tock.Attributes).To(HaveKeyWithValue("bullmq.job.scheduler.id", "tock"))
		Expect(stored(name, tock.Attributes["bullmq.job.id"].(string), "opts")).To(ContainSubstring(tock.SpanID))
		Expect(stored(name, "repeat:tock", "opts")).NotTo(ContainSubstring("traceparent"), "the template contains no context")
	})

	It("runs a job whose context cannot be decoded", func() {
		addInGo(queue, nil)
		_, err := queue.AddBulk(soon(), []bullmq.BulkJob{{Name: "a", Options: &bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{Metadata: "no JSON"}}}})
		Expect(err).NotTo(HaveOccurred())
		runInGo(name, 2, returning(nil))
		processes := all(traced.spans(), "process "+name)
		Expect(parents(processes)).To(ContainElement(""))
	})
})

func tracedQueue(name string, telemetry bullmq.Telemetry) *bullmq.Queue {
	GinkgoHelper()
	queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{URL: server.URL(), Telemetry: telemetry})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	return queue
}

// otherJob returns the second job of a queue with two jobs.
func otherJob(queue, first string) string {
	GinkgoHelper()
	for _, where := range [][]string{{"LRANGE", "wait", "0", "-1"}, {"ZRANGE", "waiting-children", "0", "-1"}} {
		ids, err := ask(where[0], "bull:"+queue+":"+where[1], where[2], where[3]).AsStrSlice()
		Expect(err).NotTo(HaveOccurred())
		for _, id := range ids {
			if id != first {
				return id
			}
		}
	}
	Fail("no other job in " + queue)
	return ""
}

// tracedSpan returns the span id in a stored context.
func tracedSpan(metadata string) string {
	GinkgoHelper()
	parts := strings.Split(metadata, "-")
	Expect(parts).To(HaveLen(4), metadata)
	return parts[2]
}

func parents(spans []endedSpan) []string {
	out := make([]string, len(spans))
	for i, s := range spans {
		out[i] = s.Parent
	}
	return out
}
